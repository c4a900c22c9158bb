"""Adapter for Transformers and tokenizers: makes the tiny model, which learns on a CPU.

It has a few hundred thousand parameters and a byte-pair tokenizer of its own, whose tokens are
fragments of lines. A supervised warm start on right and wrong completions gives it some success, as
a pretrained model has it; GRPO then has something to reinforce. The result is cached under the hash
of the recipe, the corpus and torch's version.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import canonical_json, new_folder, sha256_hex
from Daddy.core.errors import needs_extra
from Daddy.grpo.base_models import naming_full_disk

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

with needs_extra("grpo"):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging as transformers_logging

transformers_logging.disable_progress_bar()

_PAD, _END = 0, 1
_IGNORED = -100
"""Label of a token that the loss leaves out."""
_REPORT_EVERY = 100


@dataclass(frozen=True)
class TinyRecipe:
    """Decides the tiny model, with the corpus and the library's version."""

    width: int = 96
    layers: int = 3
    vocabulary: int = 576
    steps: int = 400
    batch: int = 32
    learning_rate: float = 2e-3
    seed: int = 0


def warm_tiny_model(
    corpus: Sequence[tuple[str, str]],
    recipe: TinyRecipe,
    cache: Path,
    report: Callable[[int, int, float], None],
) -> Path:
    """Return the folder of the warm tiny model, made once for a corpus and a recipe.

    ``corpus`` has pairs of prompt and completion; ``report`` gets step, steps and loss.
    """
    decided = {"recipe": asdict(recipe), "corpus": [*map(list, corpus)], "torch": torch.__version__}
    folder = cache / f"tiny-{sha256_hex(canonical_json(decided))[:16]}"
    if folder.is_dir():
        return folder
    with naming_full_disk(cache), new_folder(folder) as temp:
        _make(corpus, recipe, temp, report)
    return folder


def print_warm_start(step: int, steps: int, loss: float) -> None:
    """Print the progress of the warm start."""
    print(f"warm start of the tiny model, once: {step}/{steps}, loss {loss:.2f}", flush=True)


def _make(
    corpus: Sequence[tuple[str, str]],
    recipe: TinyRecipe,
    folder: Path,
    report: Callable[[int, int, float], None],
) -> None:
    tokenizer = _train_tokenizer([prompt + text for prompt, text in corpus], recipe.vocabulary)
    torch.set_num_threads(1)  # as in the training
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        model = _make_model(len(tokenizer), recipe)
        for step, loss in _train(model, tokenizer, corpus, recipe):
            if step % _REPORT_EVERY == 0:
                report(step, recipe.steps, loss)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _train_tokenizer(texts: Sequence[str], size: int) -> Any:
    """Train a byte-pair tokenizer whose tokens end at the end of a line at the latest."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "merged_with_previous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<end>"]
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=special[_PAD], eos_token=special[_END]
    )


def _make_model(vocabulary: int, recipe: TinyRecipe) -> Any:
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=recipe.width,
        intermediate_size=recipe.width * 8 // 3,
        num_hidden_layers=recipe.layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        pad_token_id=_PAD,
        eos_token_id=_END,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


def _train(
    model: Any, tokenizer: Any, corpus: Sequence[tuple[str, str]], recipe: TinyRecipe
) -> Iterator[tuple[int, float]]:
    """Train on random batches; the loss counts completions alone. Yields step and loss."""
    rows = [
        (len(tokenizer(prompt).input_ids), [*tokenizer(prompt + text).input_ids, _END])
        for prompt, text in corpus
    ]
    optimizer = torch.optim.AdamW(model.parameters(), recipe.learning_rate)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, recipe.steps)
    for step in range(1, recipe.steps + 1):
        batch = [rows[place] for place in torch.randint(len(rows), (recipe.batch,)).tolist()]
        longest = max(len(ids) for _, ids in batch)
        inputs = torch.tensor([ids + [_PAD] * (longest - len(ids)) for _, ids in batch])
        labels = inputs.masked_fill(inputs == _PAD, _IGNORED)
        for row, (start, _) in enumerate(batch):
            labels[row, :start] = _IGNORED
        known = (inputs != _PAD).long()
        loss = model(input_ids=inputs, attention_mask=known, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
        yield step, loss.item()
