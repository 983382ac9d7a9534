"""An EngineSpec -> argv and environment of the stub engine."""

from collections.abc import Mapping
from pathlib import Path

from engines.arguments import Argument, check_arguments, flags
from engines.spec import BadSpec, Command, EngineSpec
from engines.stub.failures import FAILURES

ARGUMENTS: dict[str, Argument] = {
    "max_model_len": Argument.whole(1),
    "kv_cache_tokens": Argument.whole(1),
    "tokens": Argument.whole(1),
    "ttft_seconds": Argument.number(),
    "token_seconds": Argument.number(),
    "start_seconds": Argument.number(),
    "start_failure": Argument.one_of(*sorted(FAILURES)),
    "start_stall": Argument.switch(),
    "exit_after_seconds": Argument.number(),
    "device_bytes": Argument.whole(1),  # of a fake card
    "asleep_bytes": Argument.whole(0),
    "wake_seconds": Argument.number(),
    "wake_failure": Argument.switch(),
}
_ROOT = Path(__file__).parent.parent.parent
_PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "WEIR_HOME", "WEIR_ALLOW_STUB")


def build_command(spec: EngineSpec, runtime: Path, base_env: Mapping[str, str]) -> Command:
    if base_env.get("WEIR_ALLOW_STUB") != "1":
        raise BadSpec("the stub engine answers without a model: set WEIR_ALLOW_STUB=1 to allow it")
    check_arguments("the stub", spec.arguments, ARGUMENTS)
    argv = (
        *(str(runtime / "bin" / "python"), "-m", "engines.stub"),
        *("--host", spec.host),
        *("--port", str(spec.port)),
        *("--served-name", spec.served_name),
        *("--max-num-seqs", str(spec.slots)),
        *(("--enable-sleep-mode",) if spec.sleep else ()),
        *flags(spec.arguments, ARGUMENTS),
    )
    env = {name: value for name, value in base_env.items() if name in _PASSED}
    return Command(
        argv,
        env
        | {
            "WEIR_REPLICA": str(spec.replica_id),
            "VLLM_API_KEY": spec.api_key,
            # An engine starts in "/": the package must be found from there, installed or not.
            "PYTHONPATH": str(_ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        | _of_cards(spec, base_env),
    )


def _of_cards(spec: EngineSpec, base_env: Mapping[str, str]) -> dict[str, str]:
    """What it holds of a fake card is told by the fake driver, where a test asks for it."""
    found = {"VLLM_SERVER_DEV_MODE": "1"} if spec.sleep else {}
    if "device_bytes" in spec.arguments and spec.device_uuids:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(spec.device_uuids)
        found |= {name: base_env[name] for name in ("FAKE_NVML_STATE",) if name in base_env}
    return found
