/**
 * The checks that `npm test` is made of, each one function that says whether it passed and what there is to
 * show. They expect an installed tree (setup.mjs).
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installedTool, runInForeground, runQuietly } from './processes.mjs'
import { ROOT } from './setup.mjs'

/** @typedef {{ passed: boolean, output: string }} StepResult */
/** @typedef {{ passed: number, failed: number, skipped: number }} TestCounts */

const LINTED = [
  'src',
  'test',
  'sim',
  'bench',
  'campaign',
  'examples',
  'scripts',
  'vitest.config.ts',
]

/** Remembers, by their content, the files that were well; a first look at all of them takes longer than the linter. */
const FORMAT_CACHE = [
  '--cache',
  '--cache-strategy=content',
  '--cache-location=node_modules/.cache/tenure-format',
]

export function checkFormat() {
  const options = ['--check', '--log-level=warn', ...FORMAT_CACHE]
  return check([...installedTool(ROOT, 'prettier'), ...options, '.'])
}

export function writeFormat() {
  return check([...installedTool(ROOT, 'prettier'), '--write', '--log-level=warn', '.'])
}

export function lint() {
  const folders = LINTED.filter((path) => existsSync(join(ROOT, path)))
  return check([...installedTool(ROOT, 'oxlint'), '--type-aware', '--deny-warnings', ...folders])
}

/**
 * Runs Vitest in this terminal and learns from its own reporter how many tests passed and failed; null when it
 * did not get as far as reporting.
 *
 * @param {readonly string[]} args
 * @returns {Promise<{ passed: boolean, counts: TestCounts | null }>}
 */
export async function runTests(args) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-test-'))
  const countsFile = join(folder, 'counts.json')
  const reporters = ['--reporter=default', `--reporter=${join(ROOT, 'scripts/count-reporter.mjs')}`]
  try {
    const status = await runInForeground(
      [...installedTool(ROOT, 'vitest'), 'run', ...reporters, ...args],
      { cwd: ROOT, env: { ...process.env, TENURE_TEST_COUNTS: countsFile } },
    )
    const counts = existsSync(countsFile) ? JSON.parse(readFileSync(countsFile, 'utf8')) : null
    return { passed: status === 0 && counts !== null && counts.failed === 0, counts }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * @param {readonly string[]} command
 * @returns {Promise<StepResult>}
 */
async function check(command) {
  const { status, output } = await runQuietly(command, { cwd: ROOT })
  return { passed: status === 0, output }
}
