"""Whether letters come as they do in words and names, or as chance draws them.

The table is a count over the identifiers of a few thousand Python modules: pairs of letters that stand in fewer than 24
of their 19,000 distinct words. One such pair is a rare word; two among few letters are a random value (95 % of random
values of 12 lower-case letters have two, 1.4 % of words do).
"""

import re
from itertools import pairwise

_RARE_PAIRS = """
    ajoqz bghknqvwxz cgjnqvwxz dhjkqwxz ejz fbghjkqvwxz gbdjkqvwxyz hbcfghjkpqvwxz ihijqwy jbcdfghjklmnpqrtvwxyz
    kbcdfghjkmnpqrtuvwxyz lghjqwxz mfghjknqvwxz njqwxz ojqz pbgjknqvwxz qabcdefghijkmnopqrstvwxyz rhjqxz sjxz
    tjkqvx uhjkquvwxyz vbcdfghjklmnpqrstuvwxyz wbcdfgjklmpqtuvwxyz xbdfghjklmnoqrsuvwxyz ybfghjkqruvwxyz
    zbcdfghjklmnpqrstuvwxyz
"""
_RARE = frozenset(group[0] + second for group in _RARE_PAIRS.split() for second in group[1:])
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_HUMPS = re.compile(r"(?!(?:To|On|In|Of|By|Is|As|At|Or|If|No|Up|Id|Ex|My|Do|It|We)(?![a-z]))[A-Z]+[a-z](?![a-z]|\d\d)")
"""A capital and one small letter before what is none, but for words of two letters: CamelCase has none."""
_USUAL_WORDS = """
    idx idxs www known know knows newly lazy maybe proxy ascii spdx ctx php baz kw kwarg kwargs kwds linux txt xor
    xnor uuid llvm hf rhs lhs wkb cfg gb mb kb argv pkg xml html xls xlsx gzip zlib svd svc svm svg xxx jwt jws jwk
    jwks pwd cwd pwds passwd avg tqdm rgb xyz bg pg qr pk nx npy npz pkl fixme sdk gpg fg recv xdist sqrt ptx jpeg
    tx rx fwd kv vcs xf img byref dx dy vv xfail njit mkdir rcvd mqtt http https ssh tls pwm gcp aws rds sqs kms vpc
    lb tf hcl db dbs js ts css csv tsv yml wx qt gtk ajax jquery vm vms mx dkim fqdn cdn ftp smtp imap ldap x509
"""
_USUAL = frozenset(_USUAL_WORDS.split())
"""Words and abbreviations of code with such pairs all the same."""


def rare_pairs(text: str) -> int:
    """Pairs of neighbouring letters that words do not have; a capital after a small letter begins a word."""
    words = [word.lower() for word in _WORDS.findall(text)]
    return sum(a + b in _RARE for word in words if word not in _USUAL for a, b in pairwise(word))


def scrambled(text: str) -> bool:
    """Case that changes as often as by chance, in a way that no CamelCase name does."""
    pairs = [(a, b) for a, b in pairwise(text) if a.isalpha() and b.isalpha()]
    changes = sum(a.isupper() != b.isupper() for a, b in pairs)
    return changes >= 0.4 * len(pairs) and bool(_HUMPS.search(text))


def improbable(text: str) -> bool:
    """A text that is no word, name or run of them: letters by chance. Says nothing of fewer than 8 letters."""
    letters = sum(map(str.isalpha, text))
    if letters < 8:
        return False
    rare = rare_pairs(text)
    return scrambled(text) or (rare >= 2 and rare * 8 >= letters)
