"""Train the small masked language model that ships with attnprobe as ``demo``.

    python docs/scripts/train_demo.py english.txt.gz --output demo --threads 1

The text is a file with one paragraph a line, optionally gzipped. Every twentieth
paragraph is held out. The tokenizer is a lower-casing WordPiece vocabulary; the model is
ModernBERT (rotary positions, pre-norm) with every layer global, trained to fill in 20 % of
the tokens, as BERT is. AdamW, a learning rate that falls linearly.

Snapshots are written along the way to ``OUTPUT/snapshots/step-N``, so that the growth of
heads can be watched with ``attnprobe positional OUTPUT/snapshots/step-1000``.
"""

import gzip
import json
import math
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MASKED_SHARE = 0.2
HELD_OUT_EVERY = 20
LONGEST = 128


def read_paragraphs(path: Path) -> list[str]:
    """Read one paragraph a line, blank lines dropped."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def train_tokenizer(paragraphs: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a lower-casing WordPiece tokenizer that frames a text as [CLS] text [SEP]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, limit_alphabet=120, show_progress=False
    )
    tokenizer.train_from_iterator(paragraphs, trainer)
    cls, sep = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    )


def token_stream(tokenizer: PreTrainedTokenizerFast, paragraphs: list[str]) -> Tensor:
    """Tokenise paragraphs into one stream, a separator after each."""
    encoded = tokenizer(paragraphs, add_special_tokens=False, verbose=False)["input_ids"]
    separator = SPECIAL.index("[SEP]")
    return torch.tensor([token for tokens in encoded for token in (*tokens, separator)])


def draw_blocks(stream: Tensor, rows: int, length: int, generator: torch.Generator) -> Tensor:
    """Cut ``rows`` blocks [CLS] ... [SEP] of ``length`` tokens at random places of the stream."""
    starts = torch.randint(len(stream) - length, (rows, 1), generator=generator)
    blocks = stream[starts + torch.arange(length)]
    blocks[:, 0], blocks[:, -1] = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    return blocks


def mask_blocks(
    blocks: Tensor, generator: torch.Generator, vocabulary: int, hidden: float = 0.8
) -> tuple[Tensor, Tensor]:
    """Choose a share of the ordinary tokens to be predicted, as BERT does.

    Of the chosen tokens a share ``hidden`` becomes [MASK]; of the others one half becomes a random
    token and one half stays, so that the model also looks at tokens that are there. Labels are -100
    for tokens that were not chosen.
    """
    chosen = (torch.rand(blocks.shape, generator=generator) < MASKED_SHARE) & (blocks >= len(SPECIAL))
    labels = blocks.masked_fill(~chosen, -100)
    fate = torch.rand(blocks.shape, generator=generator)
    masked = blocks.masked_fill(chosen & (fate < hidden), SPECIAL.index("[MASK]"))
    replaced = chosen & (fate >= hidden) & (fate < (1 + hidden) / 2)
    random = torch.randint(len(SPECIAL), vocabulary, blocks.shape, generator=generator)
    return masked.where(~replaced, random), labels


@torch.no_grad()
def masked_accuracy(
    model: ModernBertForMaskedLM, stream: Tensor, hidden: float = 0.8, length: int = 64
) -> float:
    """Share of the chosen tokens of the whole held-out stream that the model names."""
    generator = torch.Generator().manual_seed(0)
    usable = len(stream) // length * length
    blocks = stream[:usable].view(-1, length).clone()
    blocks[:, 0], blocks[:, -1] = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    masked, labels = mask_blocks(blocks, generator, model.config.vocab_size, hidden)
    model.eval()
    right = 0
    for chunk, truth in zip(masked.split(64), labels.split(64), strict=True):
        guess = model(input_ids=chunk).logits.argmax(-1)
        right += int((guess == truth)[truth != -100].sum())
    model.train()
    return right / int((labels != -100).sum())


def build_optimizer(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """AdamW, decaying the matrices only."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))


def save(
    model: ModernBertForMaskedLM, tokenizer: PreTrainedTokenizerFast, folder: Path, **facts: object
) -> None:
    """Write a half-precision checkpoint with its tokenizer and a JSON line of facts."""
    half = ModernBertForMaskedLM(model.config)
    half.load_state_dict(model.state_dict())
    half.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def main(
    text: Annotated[Path, typer.Argument(help="One paragraph a line, txt or txt.gz.")],
    output: Annotated[Path, typer.Option(help="Folder for the checkpoint.")] = Path("demo"),
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 3800,
    layers: int = 6,
    heads: int = 4,
    width: int = 128,
    feed_forward: int = 256,
    vocabulary: int = 4096,
    batch_tokens: Annotated[int, typer.Option(help="Tokens in a batch.")] = 4096,
    rate: Annotated[float, typer.Option(help="Peak learning rate of AdamW.")] = 2e-3,
    warmup: int = 150,
    hidden: Annotated[float, typer.Option(help="Share of the chosen tokens that become [MASK].")] = 0.8,
    snapshots: Annotated[int, typer.Option(help="Steps between snapshots.")] = 1000,
    threads: int = 1,
    seed: int = 42,
) -> None:
    """Train, report held-out masked accuracy at every snapshot, and save."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)

    paragraphs = read_paragraphs(text)
    held_out = paragraphs[::HELD_OUT_EVERY]
    kept = [p for i, p in enumerate(paragraphs) if i % HELD_OUT_EVERY]
    tokenizer = train_tokenizer(kept, vocabulary)
    train_stream, test_stream = token_stream(tokenizer, kept), token_stream(tokenizer, held_out)
    ordinary = test_stream[test_stream >= len(SPECIAL)]
    typer.echo(f"{len(train_stream):,} training tokens, {len(test_stream):,} held out", err=True)
    typer.echo(
        f"most frequent token: {ordinary.bincount().max() / len(ordinary):.3f} of the held-out tokens",
        err=True,
    )

    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=feed_forward,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        layer_types=["full_attention"] * layers,
        max_position_embeddings=LONGEST,
        embedding_dropout=0.0,
        attention_dropout=0.0,
        mlp_dropout=0.0,
        sparse_prediction=True,
        pad_token_id=SPECIAL.index("[PAD]"),
        cls_token_id=SPECIAL.index("[CLS]"),
        sep_token_id=SPECIAL.index("[SEP]"),
        bos_token_id=SPECIAL.index("[CLS]"),
        eos_token_id=SPECIAL.index("[SEP]"),
    )
    model = ModernBertForMaskedLM(config).train()
    optimizer = build_optimizer(model, rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, 1) * (1 - step / steps)
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("training", total=steps)
        for step in range(1, steps + 1):
            # One batch in four is twice as long, so that positions beyond 64 are trained too.
            length = LONGEST if step % 4 == 0 else LONGEST // 2
            blocks = draw_blocks(train_stream, batch_tokens // length, length, generator)
            masked, labels = mask_blocks(blocks, generator, len(tokenizer), hidden)
            loss = model(input_ids=masked, labels=labels).loss
            if not math.isfinite(loss.item()):
                raise typer.BadParameter("the loss is no longer finite; lower the learning rates")
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            progress.update(task, advance=1, description=f"step {step}  loss {loss.item():.3f}")
            if step % snapshots == 0 or step == steps:
                accuracy = masked_accuracy(model, test_stream)
                all_hidden = masked_accuracy(model, test_stream, hidden=1.0)
                progress.console.print(
                    f"step {step}: held-out masked accuracy {accuracy:.4f} ({all_hidden:.4f} if all hidden)"
                )
                folder = output if step == steps else output / "snapshots" / f"step-{step}"
                figures = {"held_out_masked_accuracy": accuracy, "held_out_accuracy_all_mask": all_hidden}
                save(model, tokenizer, folder, step=step, seed=seed, **figures)


if __name__ == "__main__":
    typer.run(main)
