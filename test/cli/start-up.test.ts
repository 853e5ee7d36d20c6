/** `tenure ls` must start quickly, so that it loads what it needs and nothing else. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { MAIN, workshop } from './tenure-process.ts'

interface Coverage {
  readonly result: readonly { readonly url: string }[]
}

/** The modules of Tenure that a run executed, as V8 itself saw it. */
function loadedModules(coverageDirectory: string): readonly string[] {
  return fs.readdirSync(coverageDirectory).flatMap((name) => {
    const text = fs.readFileSync(path.join(coverageDirectory, name), 'utf8')
    const { result } = JSON.parse(text) as Coverage
    return result.flatMap(({ url }) => /\/dist\/(.+)$/.exec(url)?.[1] ?? [])
  })
}

/** Each is half a millisecond or more of every start-up; the time itself is measured by `npm run proof`. */
const MODULES_MAX = 40
const HOOK_MODULES_MAX = 45

it('tenure hook of a read loads no store, nothing that decides, and one client', async () => {
  const { directory } = workshop()
  const coverage = path.join(directory, 'coverage')
  const event = {
    ...{ session_id: 's', cwd: directory, hook_event_name: 'PreToolUse', tool_name: 'Read' },
    tool_input: { file_path: path.join(directory, 'a.ts') },
  }
  const { status } = spawnSync(process.execPath, [MAIN, 'hook', 'claude'], {
    cwd: directory,
    input: JSON.stringify(event),
    env: { ...process.env, NODE_V8_COVERAGE: coverage, XDG_STATE_HOME: directory },
  })
  expect(status).toBe(0)
  const modules = loadedModules(coverage)
  expect(modules).toContain('hooks/hook-run.js')
  const needless = [
    /^hooks\/(shell\/|clients\/(?!claude))/,
    /^(client|store|drivers(?!\/sqlite-driver)|registrar|ledger|files|demo)\//,
    /^core\/(decide|acquire|settle|draft|commit|evolve)/,
    /^service\/(?!list-all)/,
  ]
  expect(modules.filter((name) => needless.some((pattern) => pattern.test(name)))).toEqual([])
  expect(modules.length).toBeLessThanOrEqual(HOOK_MODULES_MAX)
})

it('tenure ls loads one command and what looks, and nothing that decides, writes or waits', async () => {
  const shop = workshop()
  const coverage = path.join(shop.directory, 'coverage')
  const { code } = await shop.tenure(['ls'], { env: { NODE_V8_COVERAGE: coverage } })
  expect(code).toBe(0)
  const modules = loadedModules(coverage)
  expect(modules).toContain('cli/main.js')
  expect(modules.filter((name) => name.startsWith('cli/commands/'))).toEqual(['cli/commands/ls.js'])
  const needless = [
    /^cli\/(help|report-error|version|signals)/,
    /^(client|store\/memory|registrar|ledger|demo)\//,
    /^core\/(decide|acquire|settle|draft|commit|evolve)/,
    /^service\/(?!lease-questions)/,
    /^store\/sqlite\/sqlite-(store|writer|events|listeners)/,
  ]
  expect(modules.filter((name) => needless.some((pattern) => pattern.test(name)))).toEqual([])
  expect(modules.length).toBeLessThanOrEqual(MODULES_MAX)
})
