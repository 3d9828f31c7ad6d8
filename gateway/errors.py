"""What can go wrong in the gateway.

GatewayError
├── StartRefused           the gateway can't start (carries what is wrong, the cure and an exit code)
│   └── NothingToRun       no platform is configured (exit code 2)
├── ModelFault
│   ├── ModelUnavailable   the model may answer later (carries `retry_after`)
│   └── ModelRefused       the model will never accept this request
│       ├── Declined       it answered, and declines to do what it was asked
│       └── TooLong        because it holds more than the model takes
├── Closing                the gateway is stopping and takes no more messages
├── ClaimLost              another worker holds the row now: nothing may be committed for it
├── NotTranscribed         a voice message could not be turned into words; says why, for people
├── OutOfDate              what a session was to begin with was read too early: read it again
└── JobFailed              a scheduled job did not end well; recorded with its run
"""


class GatewayError(Exception):
    """Base of everything the gateway raises."""


class StartRefused(GatewayError):
    """The gateway can't start: `findings`, a clause each without a full stop, and the `cure` of all, in sentences.

    The message is both: a line, or one for each of several findings and one for the cure.
    """

    exit_code = 1

    def __init__(self, *findings: str, cure: str = "") -> None:
        between = ". " if len(findings) == 1 else "\n"
        super().__init__(between.join(filter(None, (*findings, cure))))
        self.findings = findings
        self.cure = cure


class NothingToRun(StartRefused):
    """No platform is configured, or no model."""

    exit_code = 2


class ModelFault(GatewayError):
    """The model gave no answer. `public` is the cause in words for people in a chat; the message is for the log."""

    public = "the model gave no answer"

    def __init__(self, message: str, *, public: str = "") -> None:
        super().__init__(message)
        self.public = public or self.public


class ModelUnavailable(ModelFault):
    """The model can't answer now: away, overloaded, or it broke off. May be tried after `retry_after` seconds."""

    public = "the model can't be reached, or is overloaded"

    def __init__(self, message: str, *, retry_after: float | None = None, public: str = "") -> None:
        super().__init__(message, public=public)
        self.retry_after = retry_after


class ModelRefused(ModelFault):
    """The model refuses the request; repeating it is of no use."""

    public = "the model refuses this message"


class Closing(GatewayError):
    """The gateway is stopping: what comes now stays unacknowledged, so that the platform sends it again."""


class Declined(ModelRefused):
    """The model took the request and declines to answer it."""

    public = "the model declines to answer it"


class TooLong(ModelRefused):
    """The request holds more than the model takes."""

    public = "this is more than the model can take in at once"


class NotTranscribed(GatewayError):
    """A voice message could not be turned into words; the message says why, in words for people."""


class ClaimLost(GatewayError):
    """The lease on the row ran out and somebody else has it: what was done for it must not be committed."""


class OutOfDate(GatewayError):
    """What a session was to begin with must not be used any more: it is to be read again."""


class JobFailed(GatewayError):
    """A scheduled job did not end well; the message is what its record says."""
