/** docs/reliability.md says what the results say, and the parts keep to the rules of the campaign. */
import fs from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { pageOf } from '../../campaign/page.ts'
import { ROOT, STEP_MINUTES_MAX } from '../../campaign/part.ts'
import { PARTS } from '../../campaign/parts.ts'
import { readFinds, readResults } from '../../campaign/results.ts'

const RESULTS = path.join(ROOT, 'campaign', 'results')

it('the page is what the campaign makes of its results (npm run campaign -- --page writes it)', () => {
  const page = fs.readFileSync(path.join(ROOT, 'docs', 'reliability.md'), 'utf8')
  // What has changed since is as of when the page was written.
  const cells = new Map(
    [...page.matchAll(/^\| \[(.+?)\]\(#.* (—|[\d,]+ files|unknown commit) \|$/gm)].map(
      ([, name, cell = '']) => [name, cell],
    ),
  )
  const tried = PARTS.map((part) => {
    const results = readResults(RESULTS, part.name)
    return { part, results, changed: cells.get(part.name) ?? 'missing' }
  })
  expect(page).toBe(pageOf(tried, readFinds(RESULTS)))
})

it('every part has a name of its own, a minimum, and steps that end within 15 minutes', () => {
  expect(new Set(PARTS.map(({ name }) => name)).size).toBe(PARTS.length)
  expect(PARTS.filter(({ atLeast }) => Object.keys(atLeast).length === 0)).toEqual([])
  const steps = PARTS.flatMap((part) => part.steps)
  expect(steps.filter(({ minutes }) => minutes > STEP_MINUTES_MAX)).toEqual([])
})

it('the results are of parts and steps that there are', () => {
  const known = new Set([...PARTS.map(({ name }) => `${name}.json`), 'finds.json'])
  expect(fs.readdirSync(RESULTS).filter((name) => !known.has(name))).toEqual([])
  const gone = PARTS.flatMap(({ name, steps }) => {
    const names = new Set(steps.map((step) => step.name))
    return readResults(RESULTS, name).steps.filter(({ step }) => !names.has(step))
  })
  expect(gone).toEqual([])
})

it('what was found is open, or names a test that there is', () => {
  const missing = readFinds(RESULTS).filter(({ test }) => {
    return test !== null && !fs.existsSync(path.join(ROOT, test))
  })
  expect(missing).toEqual([])
})
