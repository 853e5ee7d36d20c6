/** The short form of the museum: its patches apply to the sources as they are. `npm run campaign -- --only museum` runs it. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { exhibitOf, exhibitsIn } from '../../campaign/museum/exhibit.ts'
import { ROOT } from '../../campaign/part.ts'

const FOLDER = path.join(ROOT, 'campaign', 'museum')
const EXHIBITS = exhibitsIn(FOLDER)

describe('the museum', () => {
  it('has at least 30 defects, of which 20 are caught by checks that are older', () => {
    expect(EXHIBITS.length).toBeGreaterThanOrEqual(30)
    expect(EXHIBITS.filter(({ isOlder }) => isOlder).length).toBeGreaterThanOrEqual(20)
  })

  it.each(EXHIBITS)('$name applies to the sources as they are, and names tests', (exhibit) => {
    const patch = path.join(FOLDER, `${exhibit.name}.patch`)
    execFileSync('git', ['apply', '--check', patch], { cwd: ROOT, stdio: 'pipe' })
    expect(exhibit.touched.length).toBeGreaterThan(0)
    expect(exhibit.touched.filter((file) => !file.startsWith('src/'))).toEqual([])
    expect(exhibit.checks.filter((file) => !fs.existsSync(path.join(ROOT, file)))).toEqual([])
  })

  it('refuses a patch that does not say what it is', () => {
    expect(() => exhibitOf('odd', 'diff --git a b')).toThrow(/the first line of odd must be/)
    const first = 'A bug. Red: test/a.test.ts, test/b.test.ts > a lease. Older: no.'
    expect(exhibitOf('well', `${first}\n--- a/src/x.ts\n+++ b/src/x.ts\n`)).toEqual({
      ...{ name: 'well', bug: 'A bug', test: 'a lease', isOlder: false },
      checks: ['test/a.test.ts', 'test/b.test.ts'],
      touched: ['src/x.ts'],
    })
  })
})
