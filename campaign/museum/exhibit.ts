/**
 * A defect that others, or this project, have shipped, as a patch of today's sources. The first line of the patch says what
 * the defect is, which test files go red, and whether these had the check before the patch was written:
 *
 *     A renewal makes a lease that is gone. Red: test/core/renew.test.ts. Older: yes.
 *
 * A test file may be followed by `> text`: only tests with that text in their names are run.
 */
import fs from 'node:fs'
import path from 'node:path'

export interface Exhibit {
  readonly name: string
  readonly bug: string
  /** The test files that go red. */
  readonly checks: readonly string[]
  /** Text in the names of the tests that are run; null: all of the files. */
  readonly test: string | null
  readonly isOlder: boolean
  /** The sources that the patch touches. */
  readonly touched: readonly string[]
}

const FIRST_LINE = /^(.+)\. Red: (test\/\S+(?:, test\/\S+)*?)(?: > (.+))?\. Older: (yes|no)\.$/

export function exhibitOf(name: string, patch: string): Exhibit {
  const [first = ''] = patch.split('\n')
  const [, bug, checks, test, older] = FIRST_LINE.exec(first) ?? []
  if (bug === undefined || checks === undefined) {
    throw new Error(
      `the first line of ${name} must be "BUG. Red: TESTS. Older: yes.", got ${first}`,
    )
  }
  return {
    ...{ name, bug, test: test ?? null },
    checks: checks.split(', '),
    isOlder: older === 'yes',
    touched: [...patch.matchAll(/^\+\+\+ b\/(\S+)/gm)].map(([, file = '']) => file),
  }
}

/** All that are in the folder, by name. */
export function exhibitsIn(folder: string): readonly Exhibit[] {
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.patch'))
  return names.toSorted().map((name) => {
    const patch = fs.readFileSync(path.join(folder, name), 'utf8')
    return exhibitOf(name.replace(/\.patch$/, ''), patch)
  })
}
