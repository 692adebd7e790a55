"""Watch: which module of a model is running, and the attention calls it makes, while it is open.

Modules are followed by torch's hooks for all modules, so that the model itself holds nothing: its
copies and pickles are those of a model that is not watched. scaled_dot_product_attention is wrapped
where torch.nn.functional keeps it. Outputs and gradients are what they are without a watch.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from attsvm.torch.calls import Call
from attsvm.torch.models import Attention
from attsvm.torch.sources import (
    NAMES,
    Seen,
    call_of_function,
    call_of_multihead,
    call_of_reading,
    call_of_single,
)

Taker = Callable[[Call], None]
Reads = Callable[[nn.Module], Iterable[Any]]
_MULTIHEAD = inspect.signature(nn.MultiheadAttention.forward)
_SINGLE = inspect.signature(Attention.forward)
_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


# The open watches that listen to scaled_dot_product_attention, and what it is without them.
_LISTENING: list[Watch] = []
_BEFORE: list[Any] = []


def _listen(watch: Watch) -> None:
    """One wrapper for all watches: they may be closed in any order."""
    if not _LISTENING:
        given = F.scaled_dot_product_attention

        def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = given(*args, **kwargs)
            for one in tuple(_LISTENING):
                one.attended(args, kwargs)
            return out

        _BEFORE[:] = [given]
        F.scaled_dot_product_attention = scaled_dot_product_attention
    _LISTENING.append(watch)


def _ignore(watch: Watch) -> None:
    if watch in _LISTENING:
        _LISTENING.remove(watch)
        if not _LISTENING:
            F.scaled_dot_product_attention = _BEFORE.pop()


def not_seen(model: nn.Module, otherwise: str) -> str:
    """Why no attention of a model was seen; otherwise: what is said of most models.

    Models of Hugging Face attend by the function that their configuration names.
    """
    for part in model.modules():
        kind = getattr(getattr(part, "config", None), "_attn_implementation", None)
        if isinstance(kind, str) and kind != "sdpa":
            return (
                f"no attention of this model can be seen: it runs {kind} attention; load it with "
                'attn_implementation="sdpa", or call model.set_attn_implementation("sdpa")'
            )
    return otherwise


@dataclass
class Frame:
    """A module that is running, the projections that ran in it, and how often it attended."""

    module: nn.Module
    seen: dict[str, Seen] = field(default_factory=dict)
    calls: int = 0


class Watch:
    """Calls `take` with every attention call of a model while it is open.

    reads: a function of the model that yields what it attended by; then nothing else is read.
    always: also where no gradient is wanted; else validation between two steps is passed over.
    """

    def __init__(
        self, model: nn.Module, take: Taker, *, reads: Reads | None = None, always: bool = False
    ) -> None:
        self.model = model
        self.names = {id(x): name or type(x).__name__ for name, x in model.named_modules()}
        self.ran = False
        self._take, self._reads, self._always = take, reads, always
        self._running = threading.local()
        self._handles: list[Any] = []

    @property
    def open(self) -> bool:
        """Whether the model is being watched."""
        return bool(self._handles)

    def start(self) -> None:
        """Open the watch."""
        if self._handles:
            return
        self.ran = False
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        if self._reads is None:
            _listen(self)

    def stop(self) -> None:
        """Close the watch, and leave everything as it was found."""
        for handle in self._handles:
            handle.remove()
            # torch forgets to take the hook's number from this list.
            module_hooks._global_forward_hooks_with_kwargs.pop(handle.id, None)
        self._handles = []
        _ignore(self)
        self._running = threading.local()

    def _frames(self) -> list[Frame]:
        frames: list[Frame] | None = getattr(self._running, "frames", None)
        if frames is None:
            frames = self._running.frames = []
        return frames

    def _wanted(self) -> bool:
        if torch.compiler.is_compiling() or not self._handles:
            return False
        return self._always or torch.is_grad_enabled()

    def _enter(self, module: nn.Module, args: Any) -> None:
        if id(module) in self.names and not torch.compiler.is_compiling():
            self._frames().append(Frame(module))

    def _leave(self, module: nn.Module, args: Any, *rest: Any) -> None:
        """torch calls it without keywords where the module has raised."""
        if id(module) not in self.names or torch.compiler.is_compiling():
            return
        frames = self._frames()
        while frames and frames.pop().module is not module:
            pass
        if len(rest) != 2 or not self._wanted():
            return
        kwargs, out = rest
        self.ran = True
        name = self.names[id(module)]
        if self._reads is not None:
            if module is self.model:
                for given in self._reads(self.model):
                    self._read(call_of_reading(given))
        elif isinstance(module, nn.MultiheadAttention):
            bound = _MULTIHEAD.bind(module, *args, **kwargs).arguments
            if not bound["query"].is_nested:
                self._read(call_of_multihead(name, module, bound))
        elif isinstance(module, Attention):
            self._read(
                call_of_single(name, module, _SINGLE.bind(module, *args, **kwargs).arguments)
            )
        elif frames and (leaf := name.rpartition(".")[2]) in NAMES and isinstance(out, Tensor):
            x = args[0] if args else next(iter(kwargs.values()), None)
            weight = getattr(module, "weight", None)
            if isinstance(x, Tensor) and isinstance(weight, Tensor) and weight.ndim == 2:
                frames[-1].seen[leaf] = Seen(module, x, out)

    def attended(self, args: Any, kwargs: dict[str, Any]) -> None:
        """scaled_dot_product_attention has run with these arguments."""
        frames = self._frames()
        if not frames or not self._wanted():
            return
        frame = frames[-1]
        self.ran = True
        if isinstance(frame.module, nn.MultiheadAttention):
            return  # read from its own arguments
        name = self.names[id(frame.module)]
        frame.calls += 1
        layer = name if frame.calls == 1 else f"{name}, call {frame.calls}"
        call = call_of_function(
            layer, dict(zip(_ARGUMENTS, args, strict=False)) | kwargs, frame.seen
        )
        if call is not None:
            self._read(call)

    def _read(self, call: Call) -> None:
        found = call.q if call.q is not None else call.inputs[0] if call.inputs else None
        device = "cpu" if found is None else found.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            self._take(call)
