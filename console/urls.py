"""Every address of the console."""

urlpatterns: list = []
