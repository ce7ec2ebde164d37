"""What can be done to sequences before they are measured again, to see what a number depends on."""

from typing import Literal, get_args

#: Nothing, the ordinary tokens of each text in a random order, or all tokens at the same position.
Control = Literal["", "shuffled", "alike"]
#: All of them, in the order of their passes.
CONTROLS: tuple[Control, ...] = get_args(Control)

#: What a control means, for the definitions of statistics under it.
MEANING: dict[Control, str] = {
    "shuffled": (
        "Over the same sequences with the ordinary tokens of each in a random order: what `--control` adds. "
        "Special tokens stay where they are, and of a pair each text is shuffled within itself. The order "
        "depends on the seed and on the tokens of the sequence, and on nothing else. The decoder of an "
        "encoder-decoder model reads the text as it was shuffled, or its own target texts, shuffled "
        "likewise. `offset_share` is the share of the offset that the head has in the text as it is."
    ),
    "alike": (
        "Over the same sequences with all tokens at the position of a text's first token: what `--control` "
        "adds where positions are looked up in a table of absolute positions and told in no other way. What "
        "is left of a number does not come from the table. `offset_share` is the share of the offset that "
        "the head has in the text as it is."
    ),
}
