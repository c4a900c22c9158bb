"""Implements Adam (Kingma and Ba, 2015) over one flat vector of all parameters.

Gives the same numbers as torch.optim.Adam with gradient clipping (a test compares them), without
the one or two seconds in which torch's own imports its compiler (docs/decisions/10-the-learner.md).
"""

from collections.abc import Iterable

import torch
from torch import nn

from Daddy.learning.interfaces import ProcessGroup, SingleProcess

_BETA1, _BETA2 = 0.9, 0.999
EPSILON = 1e-5
"""As in PPO's reference code; torch's 1e-8 would magnify the small gradients late in training."""


class FlatAdam:
    """Updates named parameters by Adam, and holds their first and second moments."""

    def __init__(
        self, named: Iterable[tuple[str, nn.Parameter]], group: ProcessGroup | None = None
    ) -> None:
        pairs = list(named)
        self._group = group or SingleProcess()
        self.names = tuple(name for name, _ in pairs)
        self._parameters = [parameter for _, parameter in pairs]
        self._sizes = [parameter.numel() for parameter in self._parameters]
        device = self._parameters[0].device
        self.mean = torch.zeros(sum(self._sizes), device=device)
        self.square = torch.zeros_like(self.mean)
        self._flat = torch.zeros_like(self.mean)
        self._scratch = torch.zeros_like(self.mean)
        self.steps = 0

    def reset_moments(self) -> None:
        """Zero both moments and the number of steps, for weights that were not learnt here."""
        self.mean.zero_()
        self.square.zero_()
        self.steps = 0

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float, max_norm: float) -> float:
        """Update the parameters from their gradients, clipped to `max_norm`; return the norm.

        Clips the mean of all ranks' gradients, so that all take the same step. A gradient that is
        not finite (its norm is nan or inf, on any rank) leaves the parameters unchanged.
        """
        grads = [self._flat_grad(parameter) for parameter in self._parameters]
        flat = torch.cat(grads, out=self._flat)
        self._group.average(flat)
        norm = float(torch.linalg.vector_norm(flat))
        if not norm < float("inf"):
            return norm
        flat.mul_(min(1.0, max_norm / (norm + 1e-6)))
        self.steps += 1
        self.mean.lerp_(flat, 1.0 - _BETA1)
        self.square.mul_(_BETA2).addcmul_(flat, flat, value=1.0 - _BETA2)
        self._apply(rate)
        return norm

    def _apply(self, rate: float) -> None:
        root = torch.sqrt(self.square, out=self._scratch)
        root.mul_((1.0 - _BETA2**self.steps) ** -0.5).add_(EPSILON)
        change = torch.div(self.mean, root, out=self._scratch)
        change.mul_(-rate / (1.0 - _BETA1**self.steps))
        for parameter, part in zip(self._parameters, torch.split(change, self._sizes), strict=True):
            parameter.add_(part.view_as(parameter))

    def _flat_grad(self, parameter: nn.Parameter) -> torch.Tensor:
        if parameter.grad is None:
            return torch.zeros(parameter.numel(), device=parameter.device)
        return parameter.grad.reshape(-1).float()

    def broadcast(self) -> None:
        """Take the parameters, moments and number of steps of rank 0."""
        steps = torch.tensor([self.steps])
        for tensor in (*(each.data for each in self._parameters), self.mean, self.square, steps):
            self._group.broadcast(tensor)
        self.steps = int(steps)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the first and second moments, (all parameters,) float32, on the CPU."""
        return {"mean": self.mean.cpu(), "square": self.square.cpu()}

    def load_state_dict(self, tensors: dict[str, torch.Tensor], steps: int) -> None:
        """Restore the moments that `state_dict` returned after `steps` updates."""
        self.mean.copy_(tensors["mean"])
        self.square.copy_(tensors["square"])
        self.steps = steps
