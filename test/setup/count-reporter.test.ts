import { describe, expect, test } from 'vitest'
import type { TestModule } from 'vitest/node'
import { count } from '../../scripts/count-reporter.mjs'

type State = 'passed' | 'failed' | 'skipped' | 'pending'

function moduleWith(
  states: readonly State[],
  errors: { own?: number; suites?: number[] } = {},
): TestModule {
  const failing = (n: number) => ({
    errors: () => Array.from({ length: n }, () => new Error('no')),
  })
  const module = {
    ...failing(errors.own ?? 0),
    children: {
      allSuites: () => (errors.suites ?? []).map(failing),
      allTests: () => states.map((state) => ({ result: () => ({ state }) })),
    },
  }
  return module as unknown as TestModule
}

describe('the closing line of npm test', () => {
  test('adds up the tests of all files', () => {
    const modules = [moduleWith(['passed', 'failed']), moduleWith(['passed', 'skipped'])]
    expect(count(modules, [])).toEqual({ passed: 2, failed: 1, skipped: 1 })
  })

  test('counts a file that does not load as a failure', () => {
    expect(count([moduleWith([], { own: 1 })], [])).toEqual({ passed: 0, failed: 1, skipped: 0 })
  })

  test('counts a failed hook once, and the tests it kept from running as skipped', () => {
    const modules = [moduleWith(['skipped', 'skipped'], { suites: [2, 0] })]
    expect(count(modules, [])).toEqual({ passed: 0, failed: 1, skipped: 2 })
  })

  test('counts an unhandled rejection as a failure although every test passed', () => {
    expect(count([moduleWith(['passed'])], [new Error('late')])).toMatchObject({ failed: 1 })
  })

  test('does not take a test that was cut short for one that passed', () => {
    expect(count([moduleWith(['pending'])], [])).toEqual({ passed: 0, failed: 1, skipped: 0 })
  })
})
