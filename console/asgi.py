"""Where uvicorn enters: pages over HTTP, live parts over WebSockets."""

import os
import warnings

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# WhiteNoise streams files synchronously; they are small, so that costs nothing worth a warning.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous")
pages = get_asgi_application()  # loads the apps, which the consumers below need

from console.access import GuardedSockets  # noqa: E402  the apps must be loaded first
from console.live.charts import ChartsConsumer  # noqa: E402  as above
from console.live.own import OwnPartConsumer  # noqa: E402  as above
from console.live.parts import PartConsumer  # noqa: E402  as above
from console.live.playground import PlaygroundConsumer  # noqa: E402  as above
from console.paths import path  # noqa: E402  as above

sockets = URLRouter(
    [
        path("live/charts/", ChartsConsumer.as_asgi()),
        path("live/part/<slug:name>/", PartConsumer.as_asgi()),
        path("live/part/<slug:name>/<name:about>/", PartConsumer.as_asgi()),
        path("live/own/<slug:name>/", OwnPartConsumer.as_asgi()),
        path("live/playground/", PlaygroundConsumer.as_asgi()),
    ]
)

application = ProtocolTypeRouter(
    {
        "http": pages,
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(GuardedSockets(sockets))),
    }
)
