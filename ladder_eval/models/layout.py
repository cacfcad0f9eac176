"""Where the tensors of the model lie in those that a checkpoint stores."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor of the model lies: rows of one stored tensor, one after the other.

    Attributes:
        name: The stored tensor, by the name that `Layout.known` gives it.
        rows: Ranges of its rows, which may have steps; None for the whole tensor.
    """

    name: str
    rows: tuple[range, ...] | None = None


class Layout:
    """Hugging Face's: every tensor is stored for itself, under the model's own name.

    Other layouts override all of this.

    Attributes:
        layers: What the names of all layers' tensors begin with, before the layer's number.
        variant: What a reader has to know beside the stored bytes; part of the weights' hash.
    """

    layers = "layers."
    variant = ""

    def known(self, stored: str) -> str | None:
        """The one name of a stored tensor that may have several; None if it isn't needed."""
        if stored.endswith("rotary_emb.inv_freq"):
            return None  # in old checkpoints; it follows from the configuration
        return stored.removeprefix("model.")

    def place(self, name: str) -> Place:
        """Where the model's tensor lies."""
        return Place(name)


def stored_rows(rows: Sequence[range], own: range) -> tuple[range, ...]:
    """The stored rows of some rows of a tensor.

    Args:
        rows: The tensor's rows in what is stored, as in `Place`.
        own: The wanted rows, counted in the tensor.
    """
    found, start = [], 0
    for piece in rows:
        first, stop = max(own.start - start, 0), own.stop - start
        if first < len(piece) and stop > 0:
            found.append(piece[first:stop])
        start += len(piece)
    return tuple(found)
