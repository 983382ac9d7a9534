"""`weir fit`: where a version, or a folder that is not stored yet, fits, and what would help."""

import json
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from control.catalog import fitting
from control.management.shell import require_database
from control.placement import cards, fit_card, model
from control.placement.cards import DeviceKind
from control.placement.fit_card import Fit
from control.placement.weights import Tensor
from engines import model_folder
from engines.model_folder import BadModel


class Command(BaseCommand):
    help = "Say where a model fits: MODEL:VERSION, or a folder with config.json and safetensors."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", help="MODEL:VERSION, or a folder on this machine")
        parser.add_argument("--context", type=int, help="tokens of a call, for a folder")
        parser.add_argument("--calls", type=int, help="promised at once, for a folder")
        parser.add_argument("--quantization", help="while it loads, for a folder: fp8_per_channel")

    def handle(self, *, what: str, context: int, calls: int, quantization: str, **options) -> None:
        if Path(what).is_dir():
            given = {"max_model_len": context, "quantization": quantization}
            arguments = {name: value for name, value in given.items() if value is not None}
            self._folder(Path(what), arguments, {"calls": calls} if calls else None)
            return
        name, colon, version = what.rpartition(":")
        if not colon:
            raise CommandError(f"{what} is no folder here; a stored version is MODEL:VERSION")
        require_database()
        found = fitting.of_model(name, version)
        if not found:
            raise CommandError(f"there is no version {what} of an engine that Weir launches")
        for one in found:
            self._say(one.guidance or one.rests_on, one.rests_on, one.card)

    def _folder(self, folder: Path, arguments: dict, wanted: dict | None) -> None:
        try:
            config, rows = model_folder.config(folder), model_folder.tensors(folder)
        except (BadModel, json.JSONDecodeError) as error:
            raise CommandError(str(error)) from error
        read = None if rows is None else [Tensor(*row) for row in rows]
        facts = model.read(config, read, arguments)
        rests_on = facts.weights.detail or "the headers of its files"
        card = fitting.card_of(facts, arguments, wanted, _kinds())
        self._say(fit_card.guidance(facts), rests_on, card)

    def _say(self, guidance: str, rests_on: str, card: tuple[Fit, ...]) -> None:
        self.stdout.write(f"{guidance}\nby {rests_on}\n")
        for fit in card:
            for line in lines(fit):
                self.stdout.write(line)


def _kinds() -> tuple[DeviceKind, ...]:
    """Those of the fleet too, where Weir runs; a folder can be asked about without it."""
    try:
        require_database()
    except CommandError:
        return cards.COMMON
    return fitting.device_kinds()


def lines(fit: Fit) -> list[str]:
    """One for the device, and one for each thing that would make it fit."""
    gib = fit.device.memory_bytes / 2**30
    head = f"{fit.device.name} ({gib:.0f} GiB{', in the fleet' if fit.device.in_fleet else ''})"
    if fit.fits:
        calls = f"{fit.calls:,} calls of {fit.context_tokens:,} tokens at once"
        return [f"{head}: fits, {fit.kv_tokens:,} tokens of KV cache, {calls}"]
    helps = [
        f"    {remedy.what}: {remedy.kv_tokens:,} tokens, {remedy.calls:,} calls"
        for remedy in fit.remedies
    ]
    return [f"{head}: does not fit: {fit.why}", *(helps or ["    nothing that is offered helps"])]
