"""Asks over HTTP/1.1 and HTTP/2: http_client.py URL CA_FILE. The origin echoes bodies at /echo and says hello elsewhere."""

import ssl
import sys

import httpx

url, ca = sys.argv[1:]
for http2 in (False, True):
    with httpx.Client(http2=http2, verify=ssl.create_default_context(cafile=ca), timeout=30) as client:
        answer = client.get(f"{url}/hello?q=1")
        assert answer.status_code == 200, answer
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1"), answer.http_version
        for _ in range(50):
            assert client.get(f"{url}/hello").status_code == 200
        body = bytes(range(256)) * 2048
        answer = client.post(f"{url}/echo", content=body)
        assert answer.status_code == 200 and answer.content == body, (answer, len(answer.content))
        # a body whose length nobody knows before
        answer = client.post(f"{url}/echo", content=(body[at : at + 1000] for at in range(0, len(body), 1000)))
        assert answer.status_code == 200 and answer.content == body, (answer, len(answer.content))
        assert client.head(f"{url}/hello").status_code == 200
print("ok")
