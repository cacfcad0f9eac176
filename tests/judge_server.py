"""A judge behind a local port: prefers longer outputs, and fails as it is told to."""

import json
import math
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

SHOWN = re.compile(r"<<(.*?)>>", re.DOTALL)

PROMPT = "<|im_start|>user\n{instruction}\n<<{output_1}>>\n<<{output_2}>>\n<|im_end|>"


def completion(alternatives, usage=True):
    """A chat completion whose first token has these log-probabilities."""
    top = [{"token": token, "logprob": value} for token, value in alternatives.items()]
    body = {"choices": [{"logprobs": {"content": [{"token": "m", "top_logprobs": top}]}}]}
    if usage:
        body["usage"] = {"prompt_tokens": 100, "completion_tokens": 1}
    return body


def verdict(message):
    """Log-odds for the first output are its length less the second's, over 10."""
    first, second = SHOWN.findall(message)
    odds = (len(first) - len(second)) / 10
    return completion({"m": -math.log1p(math.exp(-odds)), "M": -math.log1p(math.exp(odds))})


class Quiet(ThreadingHTTPServer):
    """Clients are killed here, and their connections with them."""

    def handle_error(self, request, client_address):
        pass


class JudgeServer:
    """Counts requests by message; `faults(message, attempt)` names what goes wrong, if anything.

    Faults: a status, a (status, headers, body) triple, "drop", "garbage", "no logprobs",
    "no label", or a number of seconds as a float to wait before a right answer.
    """

    def __init__(self, faults=lambda message, attempt: None):
        self.faults, self.requests, self.answered, self.headers = faults, {}, [], []
        self.bodies, self._lock = [], Lock()
        judge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                judge.serve(self, body)

            def log_message(self, *_):
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def serve(self, handler, body):
        message = body["messages"][-1]["content"]
        with self._lock:
            attempt = self.requests.get(message, 0)
            self.requests[message] = attempt + 1
            self.headers.append(dict(handler.headers))
            self.bodies.append(body | {"path": handler.path})
        fault = self.faults(message, attempt)
        if fault == "drop":
            handler.close_connection = True
            handler.connection.close()
            return
        if isinstance(fault, float):
            time.sleep(fault)
        status, headers, content = _reply(fault, message)
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)
        except OSError:
            return  # the client is gone
        if status == 200:
            with self._lock:
                self.answered.append(message)


def _reply(fault, message):
    if isinstance(fault, tuple):
        return fault[0], fault[1], json.dumps(fault[2]).encode()
    if isinstance(fault, int):
        return fault, {}, b'{"error": {"message": "no"}}'
    content = {
        "garbage": b'{"choices": [',
        "no logprobs": b'{"choices": [{"message": {"content": "m"}}]}',
        "no label": json.dumps(completion({"The": -0.1, "Both": -2.0})).encode(),
    }.get(fault) or json.dumps(verdict(message)).encode()
    return 200, {}, content
