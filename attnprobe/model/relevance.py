"""Layer-wise relevance propagation: backward passes with other rules than those of derivatives.

Inside ``Relevance``, gradients are no derivatives: the gradient times the values of a tensor is its
relevance, and the rules conserve the sum of relevance. Forward passes are unchanged. Rules are chosen by the
names of torch's functions, so that they apply to any model.

| function | rule |
|---|---|
| softmax, sigmoid, exp, sums with a number: f(0) is not 0 | constant |
| attention | linear in the values, its probabilities constant |
| layer norms and similar norms, division, solving A x = b | normaliser, divisor and A constant |
| gelu, silu, tanh, powers: f(0) = 0 | x times f(x) / x, which is constant |
| products of n computed tensors | 1 / n to each |
| everything else, such as linear maps, sums and ReLU | the derivative |

References:
    Voita, Talbot, Moiseev, Sennrich and Titov (2019), Analyzing multi-head self-attention, section 4.
    Ali, Schnake, Eberle, Montavon, Mueller and Wolf (2022), XAI for transformers: better explanations through
    conservative propagation.
    Achtibat et al. (2024), AttnLRP, sections 3.2 and 3.3.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

Called = Callable[..., Any]
#: Takes a gradient back from a function's value to its input.
Back = Callable[[Tensor], Tensor]
#: A leaf that stands for the model's input: tensors that depend on it count as computed.
_INPUT = torch.zeros((), requires_grad=True)
#: The x for the limit of f(x) / x at 0.
_NEAR_0 = 1e-4


class Relevance(TorchFunctionMode):
    """Lets gradients carry relevance in the thread that enters it. No weight may require a gradient.

    Enter it before the tap, so that calls of tapped attention pass here as well.
    """

    def __torch_function__(
        self, func: Called, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Apply the rule of a function, where gradients flow through it."""
        rule = _RULES.get(getattr(func, "__name__", "")) if torch.is_grad_enabled() else None
        return rule(func, *args, **(kwargs or {})) if rule else func(*args, **(kwargs or {}))


class _Ruled(Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, compute: Callable[[Tensor], tuple[Tensor, Back]]) -> Tensor:
        value, ctx.back = compute(given)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.back(gradients[0]), None


def _source(func: Called, *args: Any, **kwargs: Any) -> Any:
    """Mark the value of an embedding or a projection of the model's input as computed."""
    value = func(*args, **kwargs)
    if value.requires_grad or not value.is_floating_point():
        return value
    return _Ruled.apply(_INPUT, lambda _: (value.detach(), torch.zeros_like))


def _linear_in(place: int, *names: str) -> Called:
    """Let relevance flow through a single argument, by place or name; the others are constant."""

    def apply(func: Called, *args: Any, **kwargs: Any) -> Any:
        given = (value if at == place else _detach(value) for at, value in enumerate(args))
        named = {key: value if key in names else _detach(value) for key, value in kwargs.items()}
        return func(*given, **named)

    return apply


_constant = _linear_in(-1)


def _sum(func: Called, *args: Any, **kwargs: Any) -> Any:
    """Take x + 1 for a constant, as in 1 + tanh(x); in x + b, all relevance goes to x."""
    added = args[1] if len(args) > 1 else kwargs.get("other")
    number = isinstance(added, int | float) and added != 0
    return _constant(func, *args, **kwargs) if number else func(*args, **kwargs)


def _product(func: Called, *args: Any, **kwargs: Any) -> Any:
    """Compute a product; relevance flows equally to its n computed factors, 1 / n to each."""
    given = (*args, *kwargs.values())
    factors = chain.from_iterable(part if isinstance(part, list | tuple) else (part,) for part in given)
    number = sum(isinstance(factor, Tensor) and _is_computed(factor) for factor in factors)
    value = func(*args, **kwargs)
    if number > 1:
        value.register_hook(lambda gradient: gradient / number)
    return value


def _power(func: Called, *args: Any, **kwargs: Any) -> Any:
    exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
    positive = isinstance(exponent, int | float) and exponent > 0
    return (_elementwise if positive else _constant)(func, *args, **kwargs)


def _elementwise(func: Called, *args: Any, **kwargs: Any) -> Tensor:
    """Compute f(x); relevance flows as if f(x) / x, or its limit where x is 0, were constant."""
    options = {**kwargs, "inplace": False} if "inplace" in kwargs else kwargs
    given, *others = args or (options.pop("input"),)

    def compute(given: Tensor) -> tuple[Tensor, Back]:
        value = func(given, *others, **options)
        slope = value / given
        if not given.all():
            near = given.new_full((), _NEAR_0)
            slope = torch.where(given == 0, func(near, *others, **options) / near, slope)
        return value, lambda gradient: gradient * slope

    return _Ruled.apply(given, compute) if given.requires_grad else func(given, *others, **options)


def _gated_linear(_: Called, given: Tensor, dim: int = -1) -> Tensor:
    ahead, gate = given.chunk(2, dim)
    return ahead * gate.detach().sigmoid()


def _layer_norm(
    _: Called, given: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_more: Any
) -> Tensor:
    """Compute a layer norm; relevance flows as if its scale were constant."""

    def compute(given: Tensor) -> tuple[Tensor, Back]:
        value, _, scale = torch.native_layer_norm(given, shape, weight, bias, eps)
        axes = tuple(range(-len(shape), 0))

        def back(gradient: Tensor) -> Tensor:
            wanted = gradient if weight is None else gradient * weight
            return (wanted - wanted.mean(axes, keepdim=True)) * scale.to(wanted)

        return value, back

    return _Ruled.apply(given, compute)


def _rms_norm(
    func: Called, given: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Compute an RMS norm; relevance flows as if its scale were constant."""

    def compute(given: Tensor) -> tuple[Tensor, Back]:
        axes = tuple(range(-len(shape), 0))
        precise = given.to(torch.promote_types(given.dtype, torch.float32))
        least = torch.finfo(given.dtype).eps if eps is None else eps
        scale = (precise.square().mean(axes, keepdim=True) + least).rsqrt()
        factor = scale if weight is None else scale * weight
        return func(given, shape, weight, eps), lambda gradient: (gradient * factor).to(gradient)

    return _Ruled.apply(given, compute)


def _group_norm(
    _: Called, given: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Compute a group norm; relevance flows as if its scale were constant."""
    parts = given.unflatten(1, (groups, -1)).flatten(2)
    centred = parts - parts.mean(-1, keepdim=True)
    value = (centred * (centred.detach().square().mean(-1, keepdim=True) + eps).rsqrt()).view(given.shape)
    along = (-1, *(1,) * (given.ndim - 2))
    value = value if weight is None else value * weight.view(along)
    return value if bias is None else value + bias.view(along)


def _normalize(
    _: Called, given: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Tensor:
    return given / given.detach().norm(p, dim, keepdim=True).clamp_min(eps)


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) and value.requires_grad else value


def _is_computed(tensor: Tensor) -> bool:
    """Tell whether a tensor is computed from the model's input, and not from gates alone."""
    node: Any = tensor.grad_fn if tensor.requires_grad else None
    if node is None:
        return False
    while True:
        before = [node for node, _ in node.next_functions if node is not None]
        if len(before) != 1:  # gates alone give a chain
            return bool(before)
        node = before[0]
        if (leaf := getattr(node, "variable", None)) is not None:
            return leaf is _INPUT


_KINDS: dict[Called, str] = {
    _source: "embedding linear conv1d conv2d conv3d",
    _constant: "softmax special_softmax softmin sigmoid sigmoid_ special_expit hardsigmoid exp exp_ exp2 "
    "softplus logsigmoid log logsumexp cos cosh rsqrt rsqrt_ reciprocal sqrt var std var_mean std_mean norm "
    "vector_norm linalg_norm linalg_vector_norm",
    _linear_in(2, "value"): "scaled_dot_product_attention",
    _linear_in(0): "div div_ divide divide_ true_divide true_divide_ __truediv__ __itruediv__ __div__",
    _linear_in(1): "__rtruediv__ __rdiv__",
    _linear_in(1, "B", "other"): "linalg_solve_triangular linalg_solve",
    _sum: "add add_ __add__ __radd__ __iadd__ sub sub_ subtract rsub __sub__ __rsub__ __isub__",
    _product: "mul mul_ multiply multiply_ __mul__ __rmul__ __imul__ matmul __matmul__ __rmatmul__ mm bmm mv "
    "dot einsum tensordot outer",
    _power: "pow pow_ __pow__ float_power",
    _elementwise: "gelu silu mish hardswish elu selu celu tanh tanhshrink softsign erf sin sinh square expm1 "
    "log1p",
    _gated_linear: "glu",
    _layer_norm: "layer_norm",
    _rms_norm: "rms_norm",
    _group_norm: "group_norm",
    _normalize: "normalize",
}
_RULES = {name: rule for rule, names in _KINDS.items() for name in names.split()}
