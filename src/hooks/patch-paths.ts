/** Which files a patch writes to: the form of `apply_patch`, and unified diffs as `git apply` and `patch` take them. */

const APPLY_PATCH = /^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$/gm

/** The paths of a patch in the form of `apply_patch`, each once; none if the text has no such patch. */
export function applyPatchPaths(text: string): readonly string[] {
  return unique([...text.matchAll(APPLY_PATCH)].map(([, name = '']) => name.trim()))
}

const DIFF_HEAD = /^(?:---|\+\+\+|rename from|rename to|copy to) (.+)$/gm

/** The paths of a unified diff, with `strip` leading directories taken off, as `-p` says. */
export function diffPaths(text: string, strip: number): readonly string[] {
  const names = [...text.matchAll(DIFF_HEAD)].flatMap(([line, name = '']) => {
    const bare = unquoted(name.split('\t', 1)[0] ?? '')
    if (bare === '/dev/null') return []
    // Only the names after --- and +++ have the a/ and b/ that are stripped.
    const isWhole = line.startsWith('rename') || line.startsWith('copy')
    return [isWhole ? bare : bare.split('/').slice(strip).join('/')]
  })
  return unique(names.filter((name) => name !== ''))
}

/** Git quotes names with unusual characters; of those only the plain escapes are undone. */
function unquoted(name: string): string {
  const inner = /^"(.*)"$/.exec(name)?.[1]
  return inner === undefined ? name.trim() : inner.replaceAll(/\\(["\\])/g, '$1')
}

function unique(names: readonly string[]): readonly string[] {
  return [...new Set(names)]
}
