"""Values that only their name makes secret: `password = …`, `{"api_key": …}`, `X-Api-Key: …`.

Code that merely names a secret is no finding: a lookup, a call, a variable, a type, a stand-in, an empty value.
"""

import re
from functools import lru_cache

from trace_flywheel.redaction.validators import entropy, mixed, not_uuid, random, real
from trace_flywheel.redaction.words import improbable

_STRONG = re.compile(
    r"passw(?:or)?d|passwd|passphrase|(?:^|[_.\-])pwd$|"
    r"(?:db|smtp|mysql|user|redis|ftp|mail|admin|root|ssh)_?pass$|secret|api[_\-. ]?key|access[_\-]?key|"
    r"private[_\-]?key|account[_\-]?key|encryption[_\-]?key|signing[_\-]?key|master[_\-]?key|"
    r"auth[_\-]?(?:key|token)|credential|(?:access|refresh|bearer|session|id|oauth|csrf|api|bot|personal|deploy|app)[_\-]?token|_authtoken|sshpass",
    re.IGNORECASE,
)
"""Names whose quoted or structured value is a secret whatever it looks like."""
_HARMLESS = re.compile(
    r"(?:^|[_.\-]|(?-i:(?<=[a-z])(?=[A-Z])))(?:max|min|num|total|prompt|completion|input|output|cached|reasoning|next|"
    r"pad|eos|bos|unk|sep|cls|mask|page|continuation|stop|special|count|n|primary|foreign|public|sort|partition|cache|"
    r"row|col|line|first|last|prev|cursor|sync|change|resume|thought|new|old|lock|starting|forward|backward|export|"
    r"client|client[_\-]?request|idempotency)"
    r"[_\-]?(?:page|forward|backward|request)?[_\-]?(?:tokens?|key)s?$|"
    r"secret_?name$|public_?key_?token$|^test_|"
    r"(?:key|secret|token|password|credential)s?[_\-]?(?:id|name|file|path|url|uri|type|length|len|size|count|field|"
    r"header|env|var|ref|arn|policy|prefix|format|required|usage|limit|budget|hash_algorithm|version|expiry|ttl|"
    r"ring|store|chain|manager|provider|authentication|input|label|hint|placeholder|index|dir|mode|schema|source|"
    r"status|state|flow|method|strength|rotation|information|entry_destination)$|tokenizer|"
    r"_(?:sha\d+|md5|digest|checksum|fingerprint)$|\.(?:py|js|ts|go|rs|rb|java|md|txt|log|json|ya?ml|html|css|sh)$|"
    r"_paths?$",
    re.IGNORECASE,
)
"""Names that only contain such a word."""
_CODE = re.compile(
    r"^(?:[A-Za-z_]\w*\s*[(\[]|os\.|process\.|env[.\[(]|self\.|this\.|\$|%|\{|<|#|@|/|~|\.|\\|&|"
    r"f['\"]|[,)]|await |new |lambda|\(|\[|=|!|\||--[a-z]|[a-z]{2,10}://|"
    r"0[xX][0-9a-fA-F]{1,16}$|(?:[a-z]+ )+#[0-9A-Fa-f]{3,8}$)"
    r"|\b(?:this|self)\.[a-z]|\.length\b"
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[?;,:]?|[A-Za-z_]\w*\.$")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]+-\d+")
_NAME = re.compile(r"[*&]*[A-Za-z_]\w*(?:(?:\.|::|->)\w+)*(?:\[[\w.+-]*\]?)?[:\]?;]?")
_SNAKE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_NAMED_WORD = re.compile(r"(?:key|token|password|passwd|secret|credential)s?\d?(?:[A-Z_:\[\]]|$)", re.IGNORECASE)
_KEYWORD = re.compile(r"(id|[A-Za-z_]\w{2,})(?::\s?\w+)?=[^=]")
_OPENERS = "#!=&%|.~@"
"""First characters of `_CODE` that generated passwords begin with too."""
_CLASSES = tuple(re.compile(c) for c in (r"[a-z]", r"[A-Z]", r"\d", r"[^\w\s.\-/:]"))
_WORDS = re.compile(
    r"(?:true|false|null|none|nil|undefined|nan|yes|no|on|off|required|optional|string|str|bytes|int|integer|bool|"
    r"boolean|object|any|test|tests?ing|testing123|secret|password|passwd|passw0rd|pass|token|key|apikey|api[_-]?key|"
    r"(?:my|your|some)(?:[_-]\w*|[a-z]*)|the[_-]\w*|foo|bar|baz|abc|xyz|value|default|empty|unset|missing|hidden|"
    r"todo|tbd|n/?a|user|username|root|admin|changeit|change_?me|fake|mock|stub|invalid|wrong|bearer|basic|session|"
    r"disabled|enabled|passed|failed|skipped|error|ok|success|unknown|pending|env|auto|local|dev|prod|production|development|postgres|mysql|redis|guest|hunter2?)_?\d{0,3}",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_$]*(?:[.\-:/][A-Za-z_$]+)*[?;,]?")


@lru_cache(maxsize=1024)
def sensitive(name: str) -> bool:
    """A field whose string value is a secret."""
    return bool(_STRONG.search(name)) and not _HARMLESS.search(name)


def names_a_secret_only(value: str) -> bool:
    """Code, a stand-in, an empty or ordinary word: nothing to hide."""
    text = value.strip()
    begun = text[:1] in _OPENERS and (_generated(text) or _by_chance_after(text))
    code = _CODE.search(text) and not begun and not _is_base64(text)
    if not code and _DOTTED.fullmatch(text):
        code = not any(map(_by_chance, [*text.split("."), text.replace(".", "")]))
    return len(text) < 3 or not real(text) or bool(code) or bool(_WORDS.fullmatch(text))


def _by_chance_after(text: str) -> bool:
    """One word of letters by chance behind its first character."""
    return len(text) >= 12 and bool(re.fullmatch(r"\w+", text[1:])) and improbable(text[1:])


def _is_base64(text: str) -> bool:
    """Random base64 that begins as a path does."""
    return bool(re.fullmatch(r"/[A-Za-z0-9+/]{23,}={0,2}", text)) and improbable(text)


_NAMED = re.compile(r"_*+(?>[A-Z]+(?![a-z])|[A-Z]?[a-z]++|_++|(?<=[A-Za-z_])\d++)*+")
"""Words of a name. Atomic: with a run of letters that can be cut anywhere, a refusal would take time without end."""


def _by_chance(part: str) -> bool:
    """Whether a part of a dotted name is no name: random, letters by chance, or small and capital letters and digits
    in no order that a name has."""
    named = _NAMED.fullmatch(part) and not improbable(part) and len(re.findall(r"\d+", part)) <= 2
    return not named and (random(part) or improbable(part) or (len(part) >= 5 and mixed(part)))


def _kinds(text: str) -> int:
    """How many of lower case, upper case, digits and symbols it has; a capital at its begin is a name's too."""
    return sum(bool(kind.search(text, 1)) for kind in _CLASSES)


def _generated(text: str) -> bool:
    """Three of lower case, upper case, digits and symbols, nothing that code has: what password generators give."""
    return (
        len(text) >= 10 and _kinds(text) >= 3 and not re.search(r"[\s(){}\[\]<>'\"`,;]", text) and entropy(text) >= 3.0
    )


def _is_password(value: str) -> bool:
    """Generated, and no expression of names: a piece of it came by chance, or all of it together."""
    return _generated(value) and (_in_pieces(value) or any(map(_by_chance, re.findall(r"\w+", value))))


def _in_pieces(value: str) -> bool:
    """Many runs of letters, short ones, small and capital: each could be a name's, all of them come by chance."""
    runs = _RUNS.findall(value)
    letters = sum(map(len, runs))
    return len(runs) >= 5 and letters >= 9 and letters <= 2.5 * len(runs) and value.upper() != value != value.lower()


_RUNS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""Letters of one word of a name: those before the next digit, sign or capital."""


def is_secret_value(name: str, value: str, gap: str, after: str = "") -> bool:
    """Whether `value`, assigned to `name` with `gap` between them and `after` behind it, is a secret.

    A plain assignment needs a value of letters and digits or symbols that is no identifier; a looser gap (a table cell,
    `ENV NAME value`, prose) one that looks random.
    """
    if _HARMLESS.search(name) or names_a_secret_only(value):
        return False
    quoted = gap.rstrip()[-1:] in ("'", '"', "`")
    if _WRAPPED.search(gap):
        return quoted and not _LOOKUP.search(gap) and _stands_alone(value)
    loose = not re.search(r"[=:>]", gap)
    if "==" in gap and not quoted and not random(value) and not _is_password(value):
        return False
    if quoted and loose and re.search(r"[(,]", gap) and _is_worded(value):
        return False
    if not quoted and (loose or " " in gap or "\t" in gap) and _names_something(value, gap, after, loose):
        return False
    prose = value.count(" ") > 3 or _is_prose(value)
    if _IDENTIFIER.fullmatch(value):
        named = quoted and not loose and bool(_STRONG.search(name)) and entropy(value) >= 3.5
        chance = improbable(value) and entropy(value) >= 2.8
        return (len(value) >= 12 and (named or chance)) or (
            len(value) >= 8 and chance and not loose and bool(_STRONG.search(name))
        )
    if loose or not _STRONG.search(name):
        sure = (quoted and gap[:1].isspace()) or (_kinds(value) >= 3 and _by_chance(value))
        least = 8 if sure and _STRONG.search(name) else 12
        return len(value) >= least and (mixed(value) or _generated(value)) and entropy(value) >= 2.5 and not prose
    return len(value) >= 6 and not prose and (mixed(value) or bool(re.search(r"[^\w\s.\-:/]", value)))


_WRAPPED = re.compile(r"[=:]\s*(?:[A-Za-z_][\w.:<>]*)?\(|\|\||\?\?|\bor\b|\bdefault=")
"""A literal inside a call, or one that stands for a missing value."""
_LOOKUP = re.compile(
    r"(?:env\w*|get\w*|load\w*|read\w*|fetch\w*|look_?up\w*|find\w*|input|prompt|open|path|var)!?\(", re.IGNORECASE
)
"""A call that takes the name of what it gives."""


def _stands_alone(value: str) -> bool:
    """A literal that is random whatever is done with it: no name, no path, no text, no format."""
    known = re.fullmatch(r"[\w+/=.~!#@^&*:-]{12,}", value) and "://" not in value
    named = _NAMED_WORD.search(value) or re.fullmatch(r"[A-Z0-9]+(?:_[A-Z0-9]+)+", value)
    chance = mixed(value) or _is_password(value)
    return bool(known) and not named and chance and entropy(value) >= 3.0 and not _is_worded(value)


def _names_something(value: str, gap: str, after: str, loose: bool) -> bool:
    """What stands in code where a value could: a type, a constant, a function, a keyword argument."""
    keyword = _KEYWORD.match(value) if loose else None
    if keyword is not None and not _by_chance(keyword[1]) and not _is_password(value):
        return True
    if _NAME.fullmatch(value) and (after == "(" or (loose and _SNAKE.fullmatch(value))):
        return True
    if "(" in gap or "," in gap:
        return bool(_NAME.fullmatch(value)) and _is_worded(value)
    if _CONSTANT.fullmatch(value):
        return True
    if not _NAME.fullmatch(value) or improbable(value):
        return False
    return value[:1] in "*&" or bool(_NAMED_WORD.search(value)) or value.count("_") >= 2


def _is_worded(value: str) -> bool:
    """Made of words and names, as the arguments of a call are."""
    if not not_uuid(value):
        return False
    if re.fullmatch(r"[\w.&*;-]+", value) and mixed(value) and _in_pieces(value):
        return False
    return bool(re.fullmatch(r"[\w.:/ \[\]&*;-]+", value)) and not any(map(_by_chance, re.findall(r"\w+", value)))


def _is_prose(value: str) -> bool:
    """Words with spaces between, most of them letters only."""
    words = value.split()
    return len(words) >= 3 and sum(word.strip(".,;:'\"()&/’¿?¡!").isalpha() for word in words) >= 0.7 * len(words)


def whole_value_is_secret(value: str) -> bool:
    """Whether the string under a sensitive key is one: any that is not code, a stand-in, or plain prose."""
    prose = " " in value.strip() and not re.search(r"\d|[^\w\s.,;:'\"()\-/]", value)
    return not names_a_secret_only(value) and not prose and not _is_prose(value) and "[REDACTED" not in value
