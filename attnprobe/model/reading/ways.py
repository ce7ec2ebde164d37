"""The ways to a model's attention."""

from enum import StrEnum


class Way(StrEnum):
    """How attention is reached. The dry run tries them in this order and takes the first that holds."""

    REGISTRY = "attention registry"
    TAP = "softmax tap"
    #: Of modules that take two softmaxes, such as LiLT's, which begins with the page's layout.
    SECOND_TAP = "tap of the second softmax"
    HOOKS = "forward hooks under eager attention"
