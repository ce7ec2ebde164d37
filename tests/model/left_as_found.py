"""What reading a model might disturb, and has to leave as it was."""

from typing import Any

import torch
from torch import nn


def state(model):
    """Record everything about a model that a pass of ours might disturb."""
    modules: dict[str, nn.Module] = dict(model.named_modules())
    hooks = {
        name: [
            hook
            for kind in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
            for hook in kind.values()
            # transformers leaves its own, idle ones, when it is first asked for output_attentions
            if hook.__module__ != "transformers.utils.output_capturing"
        ]
        for name, module in modules.items()
    }
    configs: dict[str, Any] = {n: m.config for n, m in modules.items() if hasattr(m, "config")}
    return {
        "modules": {name: id(module) for name, module in modules.items()},
        "training": {name: module.training for name, module in modules.items()},
        "attention": {name: config._attn_implementation for name, config in configs.items()},
        "kinds": {n: m.attention_type for n, m in modules.items() if hasattr(m, "attention_type")},
        "hooks": hooks,
        "forward": [name for name, module in modules.items() if "forward" in vars(module)],
        "gradients": {name: (p.requires_grad, p.grad) for name, p in model.named_parameters()},
        "weights": {n: (p.data_ptr(), p.detach().numpy().tobytes()) for n, p in model.state_dict().items()},
        "outputs": (model.config.output_attentions, model.config.return_dict),
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "random": torch.get_rng_state().tolist(),
    }
