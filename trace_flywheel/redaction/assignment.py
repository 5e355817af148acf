"""Values that only their name makes secret: `password = …`, `{"api_key": …}`, `X-Api-Key: …`.

Code that merely names a secret is no finding: a lookup, a call, a variable, a type, a stand-in, an empty value.
"""

import re
from itertools import pairwise

from trace_flywheel.redaction.validators import entropy, mixed, random, real

_STRONG = re.compile(
    r"passw(?:or)?d|passwd|passphrase|(?:^|[_.\-])pwd$|"
    r"(?:db|smtp|mysql|user|redis|ftp|mail|admin|root|ssh)_?pass$|secret|api[_\-. ]?key|access[_\-]?key|"
    r"private[_\-]?key|account[_\-]?key|encryption[_\-]?key|signing[_\-]?key|master[_\-]?key|"
    r"auth[_\-]?(?:key|token)|credential|(?:access|refresh|bearer|session|id|oauth|csrf|api|bot|personal|deploy|app)[_\-]?token|_authtoken|sshpass",
    re.IGNORECASE,
)
"""Names whose quoted or structured value is a secret whatever it looks like."""
_HARMLESS = re.compile(
    r"(?:max|min|num|total|prompt|completion|input|output|cached|reasoning|next|pad|eos|bos|unk|sep|cls|mask|page|"
    r"continuation|stop|special|count|n|primary|foreign|public|sort|partition|cache|row|col|line|first|last|prev|"
    r"cursor|sync|change|resume|thought|new|old)[_\-]?(?:page[_\-]?)?(?:tokens?|key)s?$|secret_?name$|"
    r"(?:key|secret|token|password|credential)s?[_\-]?(?:id|name|file|path|url|uri|type|length|len|size|count|field|"
    r"header|env|var|ref|arn|policy|prefix|format|required|usage|limit|budget|hash_algorithm|version|expiry|ttl|"
    r"ring|store|chain|manager|provider|authentication|input|label|hint|placeholder|index|dir|mode|schema)$|tokenizer|"
    r"_paths?$",
    re.IGNORECASE,
)
"""Names that only contain such a word."""
_CODE = re.compile(
    r"^(?:[A-Za-z_]\w*\s*[(\[]|os\.|process\.|env[.\[(]|self\.|this\.|\$|%|\{|<|#|@|/|~|\.|\\|&|"
    r"f['\"]|await |new |lambda|\(|\[|=|!|\|)"
)
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*\.")
_OPENERS = "#!=&%|."
"""First characters of `_CODE` that generated passwords begin with too."""
_CLASSES = tuple(re.compile(c) for c in (r"[a-z]", r"[A-Z]", r"\d", r"[^\w\s.\-/:]"))
_WORDS = re.compile(
    r"(?:true|false|null|none|nil|undefined|nan|yes|no|on|off|required|optional|string|str|bytes|int|integer|bool|"
    r"boolean|object|any|test|tests?ing|testing123|secret|password|passwd|passw0rd|pass|token|key|apikey|api[_-]?key|"
    r"my[_-]?\w*|your[_-]?\w*|the[_-]\w*|some[_-]?\w*|foo|bar|baz|abc|xyz|value|default|empty|unset|missing|hidden|"
    r"todo|tbd|n/?a|user|username|root|admin|changeit|change_?me|fake|mock|stub|invalid|wrong|bearer|basic|session|"
    r"disabled|enabled|env|auto|local|dev|prod|production|development|postgres|mysql|redis|guest|hunter2?)\d{0,3}",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_$]*(?:[.\-:/][A-Za-z_$]+)*[?;,]?")


def sensitive(name: str) -> bool:
    """A field whose string value is a secret."""
    return bool(_STRONG.search(name)) and not _HARMLESS.search(name)


def names_a_secret_only(value: str) -> bool:
    """Code, a stand-in, an empty or ordinary word: nothing to hide."""
    text = value.strip()
    code = _CODE.match(text) and not (text[:1] in _OPENERS and _generated(text))
    if not code and _ATTRIBUTE.match(text):
        code = not any(random(part) or (len(part) >= 12 and scrambled(part)) for part in text.split("."))
    return len(text) < 3 or not real(text) or bool(code) or bool(_WORDS.fullmatch(text))


def _generated(text: str) -> bool:
    """Three of lower case, upper case, digits and symbols, nothing that code has: what password generators give."""
    kinds = sum(bool(kind.search(text, 1)) for kind in _CLASSES)
    return len(text) >= 10 and kinds >= 3 and not re.search(r"[\s(){}\[\]<>'\"`,;]", text) and entropy(text) >= 3.0


def scrambled(word: str) -> bool:
    """Case that changes as often as by chance, which no camelCase name does."""
    pairs = list(pairwise(word))
    changes = sum(a.isalpha() and b.isalpha() and a.isupper() != b.isupper() for a, b in pairs)
    return changes >= 0.4 * len(pairs)


def is_secret_value(name: str, value: str, gap: str) -> bool:
    """Whether `value`, assigned to `name` with `gap` between them, is a secret.

    A plain assignment needs a value of letters and digits or symbols that is no identifier; a looser gap (a table cell,
    `ENV NAME value`, prose) one that looks random.
    """
    if _HARMLESS.search(name) or names_a_secret_only(value):
        return False
    quoted = gap.rstrip()[-1:] in ("'", '"', "`")
    loose = not re.search(r"[=:>]", gap)
    if "==" in gap and not quoted and not random(value):
        return False
    if _IDENTIFIER.fullmatch(value):
        named = quoted and not loose and bool(_STRONG.search(name)) and entropy(value) >= 3.5
        return len(value) >= 12 and (named or (scrambled(value) and entropy(value) >= 3.0))
    if loose or not _STRONG.search(name):
        return len(value) >= 12 and mixed(value) and entropy(value) >= 2.8
    return len(value) >= 6 and (mixed(value) or bool(re.search(r"[^\w\s.\-:/]", value))) and value.count(" ") < 4


def whole_value_is_secret(value: str) -> bool:
    """Whether the string under a sensitive key is one: any that is not code, a stand-in, or plain prose."""
    prose = " " in value.strip() and not re.search(r"\d|[^\w\s.,;:'\"()\-/]", value)
    return not names_a_secret_only(value) and not prose and "[REDACTED" not in value
