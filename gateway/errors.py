"""What can go wrong in the gateway.

GatewayError
├── StartRefused           the gateway can't start; one sentence with the cure, and an exit code
│   └── NothingToRun       no platform is configured (exit code 2)
├── ModelFault
│   ├── ModelUnavailable   the model may answer later (carries `retry_after`)
│   └── ModelRefused       the model will never accept this request
├── Closing                the gateway is stopping and takes no more messages
├── ClaimLost              another worker holds the row now: nothing may be committed for it
└── Stopped                the person said /stop
"""


class GatewayError(Exception):
    """Base of everything the gateway raises."""


class StartRefused(GatewayError):
    """The gateway can't start; the message is one sentence that names the cause and the cure."""

    exit_code = 1


class NothingToRun(StartRefused):
    """No platform is configured."""

    exit_code = 2


class ModelFault(GatewayError):
    """The model gave no answer."""


class ModelUnavailable(ModelFault):
    """The model can't answer now: away, overloaded, or it broke off. May be tried after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefused(ModelFault):
    """The model refuses the request, the key, or the model's name; repeating it is of no use."""


class Closing(GatewayError):
    """The gateway is stopping: what comes now stays unacknowledged, so that the platform sends it again."""


class ClaimLost(GatewayError):
    """The lease on the row ran out and somebody else has it: what was done for it must not be committed."""


class Stopped(GatewayError):
    """The turn was cancelled by the person."""


class JobFailed(GatewayError):
    """A scheduled job did not end well; the message is what its record says."""
