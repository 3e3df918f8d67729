"""Redirects of an S3 endpoint, which are refused: no request, and no header with a secret, goes to another host.

botocore follows none by itself, but then asks for the bucket's region again and again. obstore follows them and cannot
be told not to, so the first request for a bucket on an endpoint of the user's is one without credentials that only
looks for a redirect.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from singer_arrow.errors import ConfigError

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECONDS = 10.0
_REGION = "x-amz-bucket-region"


def refuse_redirects(endpoint: str, bucket: str, key: str, ca_bundle: str | None) -> None:
    """Raise ConfigError if the endpoint answers a request for an object with a redirect.

    Any other answer, or none, is left to the request itself. Proxies are those of the environment.
    """
    import http.client
    import ssl
    from urllib import request

    opener = request.OpenerDirector()  # without the handlers of redirects and errors
    for handler in (request.ProxyHandler(), request.HTTPHandler()):
        opener.add_handler(handler)
    if endpoint.startswith("https://"):
        opener.add_handler(request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_bundle)))
    address = f"{endpoint.rstrip('/')}/{bucket}/{quote(key)}"
    asked = request.Request(address, headers={"Range": "bytes=0-0"})  # noqa: S310 - http or https, see `usual_access`
    try:
        with opener.open(asked, timeout=_SECONDS) as answer:
            error = redirect_error(endpoint, answer.status, answer.headers)
    except (OSError, http.client.HTTPException):
        return  # the request itself reports it
    if error:
        raise error


def redirect_error(endpoint: str, status: int, headers: Mapping[str, str]) -> ConfigError | None:
    """Return the error for an answer of an endpoint that is a redirect; None if it is none."""
    if status not in _REDIRECTS:
        return None
    to = urlsplit(headers.get("location") or headers.get("Location") or "")
    where = f" to {to.scheme}://{to.hostname}{f':{to.port}' if to.port else ''}" if to.hostname else ""
    region = headers.get(_REGION)
    advice = "set aws.endpoint_url (AWS_ENDPOINT_URL) to the right address, or leave it out"
    advice += f" (the bucket is in {region})" if region else ""
    return ConfigError(
        f"The S3 endpoint {endpoint} redirects{where} (status {status}), which is not followed; {advice}"
    )
