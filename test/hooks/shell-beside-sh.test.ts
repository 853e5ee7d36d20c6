/** What a command line was read to do, beside what a shell does: what is denied or watched holds all that is changed. */
import path from 'node:path'
import { expect, it } from 'vitest'
import { readShell } from '../../src/hooks/shell/shell-reading.ts'
import { expandGlob, isDirectory, isThere, textOfFile } from '../../src/hooks/tree.ts'
import { temporaryRepository } from '../git/temporary-repository.ts'

const NAMES = ['a.ts', 'b.ts', 'src/a.ts', 'src/b.ts']

function patchOf(name: string): string {
  return `'EOF'\n--- a/${name}\n+++ b/${name}\n@@ -1,1 +1,1 @@\n-one\n+two\nEOF`
}

/** Denied before, where another holds a file of them. */
const DENIED = [
  'for f in a.ts src/*.ts; do sed -i s/one/two/ "$f"; done',
  'for f in a b; do\n  echo two > $f.ts\ndone',
  'for d in . src; do (cd $d && for f in a b; do rm $f.ts; done) done',
  'while read f; do echo two; done < list.txt > a.ts',
  'FILES="a.ts src/b.ts"; sed -i s/one/two/ $FILES',
  "FILES='*.ts'; rm $FILES",
  'readonly F=a.ts; rm $F',
  'perl -0pi -e s/one/two/ a.ts',
  'perl -0777pi -e s/one/two/ a.ts',
  "trap 'rm a.ts' EXIT",
  'uniq list.txt b.ts',
  'git diff --output=a.ts',
  "git restore '*.ts'",
  "git checkout -- '*.ts'",
  "git checkout HEAD -- ':/a.ts'",
  "git rm -qf 'src/*.ts'",
  'git restore --pathspec-from-file=list.txt',
  `cd src && git apply <<${patchOf('src/a.ts')}`,
  `git apply --directory=src <<${patchOf('b.ts')}`,
]

/** Compared afterwards. */
const WATCHED = [
  'edit() { sed -i s/one/two/ a.ts; }; edit',
  'case a in a) rm a.ts;; esac',
  'xargs rm < list.txt',
  'cat list.txt | xargs sed -i s/one/two/',
  'grep -rl one src | xargs sed -i s/one/two/',
  'find src -fprint0 a.ts',
  `perl -e 'open(F, ">", "a.ts")'`,
  `perl <<'EOF'\nunlink("src/a.ts");\nEOF`,
  'tenure run work:x --store memory: -- rm a.ts',
]

interface Played {
  readonly changed: readonly string[]
  readonly reading: ReturnType<typeof readShell>
  readonly within: (places: readonly string[]) => readonly string[]
}

async function played(line: string): Promise<Played> {
  const { root, write, git, shell } = temporaryRepository()
  for (const name of NAMES) write(name, 'one\n')
  write('list.txt', 'a.ts\nb.ts\n')
  git('add', '.')
  git('commit', '--quiet', '--message=first')
  if (/^git (?:restore|checkout)/.test(line)) for (const name of NAMES) write(name, 'changed\n')
  const files = { isThere, isDirectory, readText: textOfFile, glob: expandGlob }
  const reading = readShell(line, { cwd: root, variables: { PWD: root }, ...files })
  const textIn = (name: string): string | null => textOfFile(path.join(root, name))
  const before = NAMES.map(textIn)
  await shell(line)
  const changed = NAMES.filter((name, index) => textIn(name) !== before[index])
  const within = (places: readonly string[]): readonly string[] => {
    return changed.filter((name) => {
      return places.some((place) => !path.relative(place, path.join(root, name)).startsWith('..'))
    })
  }
  return { changed, reading, within }
}

it.each(DENIED)('reads of %j all that a shell changes', async (line) => {
  const { changed, reading, within } = await played(line)
  const { writes, checkouts } = reading
  expect(changed).not.toEqual([])
  expect(within([...writes, ...checkouts.map(({ directory }) => directory)])).toEqual(changed)
})

it.each(WATCHED)('watches of %j all that a shell changes', async (line) => {
  const { changed, reading, within } = await played(line)
  expect(changed).not.toEqual([])
  expect(reading.isKnown).toBe(false)
  expect(within(reading.named)).toEqual(changed)
})
