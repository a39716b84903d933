#!/usr/bin/env python3
"""Words and readability of the README and the documents, without pages that are written from the program.

    tests/readability.py [REVISION]     beside the same of REVISION, which git knows

Words are those of `wc -w`. Prose is without blocks, tables, headings and pictures. A sentence ends at `.`, `:`, `;`, `!` or `?` before a
blank, and with its paragraph. Flesch's reading ease is 206.835 - 1.015 words per sentence - 84.6 syllables per word; syllables are groups of
vowels, without a silent `e` at the end. Names of the program (`code`) count as words of two syllables.
"""
import re
import subprocess
import sys

GENERATED = {"docs/reference.md", "docs/sources.md"}


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def pages(revision):
    """The pages by name, with their texts."""
    names = git("ls-tree", "-r", "--name-only", revision or "HEAD").splitlines()
    names = [name for name in names if name == "README.md" or name.startswith("docs/") and name.endswith(".md")]
    names = [name for name in names if name not in GENERATED]
    return {name: git("show", f"{revision or 'HEAD'}:{name}") for name in names}


def sentences(text):
    """The sentences of the prose."""
    text = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.S | re.M)
    paragraphs = [""]
    for line in text.splitlines():
        line = line.strip().removeprefix("> ")
        if not line or line.startswith(("|", "#", "![", "<", ">")):
            paragraphs.append("")
        elif re.match(r"([-*]|\d+\.) ", line):
            paragraphs.append(re.sub(r"^([-*]|\d+\.) ", "", line))
        else:
            paragraphs[-1] += " " + line
    found = []
    for paragraph in paragraphs:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        plain = re.sub(r"`[^`]*`", "coded", plain).replace("*", "")
        found += [part.split() for part in re.split(r"[.:;!?](?:\s|$)", plain) if part.strip()]
    return [[word for word in words if re.search(r"\w", word)] for words in found]


def syllables(word):
    word = re.sub(r"[^a-z]", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", re.sub(r"(?<![l])e$", "", word))))


def figures(texts):
    """Words, words of prose, words per sentence, share of sentences over 20 words, longest, reading ease."""
    found = [words for text in texts for words in sentences(text) if words]
    prose = sum(map(len, found))
    each = prose / max(1, len(found))
    ease = 206.835 - 1.015 * each - 84.6 * sum(syllables(word) for words in found for word in words) / max(1, prose)
    long = sum(len(words) > 20 for words in found) / max(1, len(found))
    words = sum(len(text.split()) for text in texts)
    return f"{words:6} {prose:6} {each:6.1f} {long:6.1%} {max(map(len, found), default=0):4} {ease:5.1f}"


def main():
    now = pages(None)
    before = pages(sys.argv[1]) if len(sys.argv) > 1 else {}
    heading = " words  prose   each   >20w  max  ease"
    print(f"{'':40} {heading}" + (f"   before:{heading}" if before else ""))
    for name in sorted(set(now) | set(before)):
        sides = [figures([side[name]]) if name in side else " " * 38 for side in (now, before)]
        print(f"{name:40} {sides[0]}" + (f"          {sides[1]}" if before else ""))
    print(f"{'together':40} {figures(now.values())}" + (f"          {figures(before.values())}" if before else ""))


if __name__ == "__main__":
    main()
