"""What the simulated model reads and says: how text is cut into tokens, and a small text of its own to reply with."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

LONGEST_PIECE = 12
"""Characters of an ASCII word that make one token; a longer word is cut into several."""

VOCABULARY = 32_000

# Every word is at most LONGEST_PIECE characters of ASCII without quotes or backslashes, so that one word is one token
# and can stand in JSON as it is. A unit test holds both.
_SENTENCES = tuple(
    tuple(b" " + word.encode("ascii") for word in sentence.split())
    for sentence in """
    The harbour wakes before the town does, and the first boats leave while the lamps are still lit.
    A gull turns once above the pier, thinks better of it, and settles on the roof of the ice house.
    In the bakery on the corner the ovens have been warm since three, and the street smells of rye.
    Someone has left a blue bicycle against the wall, with a basket of letters and no hurry at all.
    By seven the fog is thin enough to see the far shore, where the hills keep a little of the night.
    The ferry sounds its horn twice, which means that the tide is right and the coffee is ready.
    An old man counts the steps down to the water, as he has done each morning for forty years.
    Children on their way to school stop to ask the fishermen what they caught and what got away.
    The clock above the market runs four minutes late, and nobody would dream of putting it right.
    At noon the light is flat and white, and the cats move from one doorstep to the next with care.
    A violin is being tuned behind an open window; the same note rises, falls, and comes back true.
    Rain arrives from the west without any fuss, stays for an hour, and leaves the stones shining.
    In the reading room of the library a map shows rivers that were moved and bridges that were not.
    The gardener says that patience is only a way of looking, and that pears know this very well.
    Towards evening the wind drops, and you can hear the rope of every flag tapping at its pole.
    When the last boat is tied up, the lamps are lit again, and the harbour begins to tell the time.
    """.strip().splitlines()
)


def pieces(text: str) -> list[str]:
    """The tokens of a text: words, an ASCII word cut every LONGEST_PIECE characters, any other word character by
    character. White space is not kept."""
    words = text.split()
    if text.isascii() and (not words or len(max(words, key=len)) <= LONGEST_PIECE):
        return words
    cut: list[str] = []
    for word in words:
        if word.isascii():
            cut.extend(word[start : start + LONGEST_PIECE] for start in range(0, len(word), LONGEST_PIECE))
        else:
            cut.extend(word)
    return cut


def count_tokens(text: str) -> int:
    """How many tokens a text is, by `pieces`."""
    return len(pieces(text))


def token_ids(text: str) -> list[int]:
    """The tokens as numbers below VOCABULARY: the same piece is always the same number."""
    return [zlib.crc32(piece.encode("utf-8", "surrogatepass")) % VOCABULARY for piece in pieces(text)]


def reply_seed(prompt: str, salt: int = 0) -> int:
    """The number that decides what is said to a prompt; another `salt` gives another reply."""
    return zlib.crc32(prompt.encode("utf-8", "surrogatepass")) + (salt << 32)


def reply_words(seed: int) -> Iterator[bytes]:
    """Endless readable English, decided by the seed alone: one token a word, each with its leading space, and safe
    inside a JSON string."""
    draw = random.Random(seed)
    order = list(range(len(_SENTENCES)))
    while True:
        draw.shuffle(order)
        for index in order:
            yield from _SENTENCES[index]
