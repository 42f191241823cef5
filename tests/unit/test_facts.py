"""Facts: known with a source, declared, or unknown with the way to learn them; never two of these at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.domain.facts import DECLARED, FROM_THE_NAME, Facts

NAMES = st.sampled_from(["quant", "context"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, st.sampled_from([None, "", "x", 0, False])),
        st.tuples(st.just("declare"), NAMES, st.sampled_from(["mine", 8192])),
    ),
    max_size=8,
)


@given(steps=STEPS)
def test_a_name_is_known_or_unknown_and_never_both(steps: list[tuple[str, str, object]]) -> None:
    facts = Facts()
    for verb, name, value in steps:
        if verb == "set":
            facts.set(name, value, "GET /props", "look")  # type: ignore[arg-type]
        else:
            facts.declare(name, value)  # type: ignore[arg-type]
    known = dict(facts)
    assert not set(known) & set(facts.unknown)
    assert set(known) | set(facts.unknown) == {name for _, name, _ in steps}
    assert all(fact.value not in (None, "") for fact in known.values())
    assert facts.values().keys() == facts.sources().keys() == set(known)
    assert len(facts) == len(known)


def test_what_was_verified_stands_against_the_users_word_and_a_name_does_not() -> None:
    facts = Facts()
    facts.set("quant", "Q4_0", FROM_THE_NAME)
    facts.set("context", 4096, "GET /props")
    for name, value in (("quant", "Q8_0"), ("context", 8192), ("slots", 4)):
        facts.declare(name, value)
    assert facts.table() == {
        "quant": "Q8_0",
        "context": 4096,
        "slots": 4,
        "source": {"quant": DECLARED, "context": "GET /props", "slots": DECLARED},
    }


def test_what_is_known_is_not_lost_when_another_place_does_not_tell() -> None:
    facts = Facts()
    facts.set("context", None, "", "ask the server")
    assert (facts.unknown, facts.get("context"), facts.source("context")) == ({"context": "ask the server"}, None, "")
    facts.set("context", 0, "GET /props")
    assert ("context" in facts, facts.get("context"), facts.unknown) == (True, 0, {})
    facts.set("context", None, "GET /other", "look")
    assert (facts.get("context"), facts.unknown) == (0, {})
    assert Facts().table() == {}
