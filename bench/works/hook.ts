/** Work 6: how long the hook of a coding agent's edit takes, from nothing, among few and many leases. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseResource } from '../../src/core/resource.ts'
import { openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { Plan } from '../plan.ts'
import type { Result } from '../result.ts'
import { ROOT } from '../systems/load-peer.ts'
import type { Stage } from './entrants.ts'
import { measurePrograms, NODE_ALONE, type Program } from './start-up.ts'

export const HOOK = 'hook'
const TTL_MS = 86_400_000
const AT_ONCE = 500

export async function measureHook(stage: Stage, plan: Plan): Promise<readonly Result[]> {
  stage.say('hook')
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-bench-hook-')))
  try {
    const { sizes, rounds } = plan.hook
    const programs: Program[] = [{ name: NODE_ALONE, command: [process.execPath, '-e', '0'] }]
    for (const size of sizes) programs.push(await hookAmong(path.join(folder, String(size)), size))
    return measurePrograms(HOOK, programs, rounds)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** The name of the program, by how many leases of others there are. */
export function hookName(size: number): string {
  return `tenure hook, ${size.toLocaleString('en')} leases`
}

async function hookAmong(tree: string, size: number): Promise<Program> {
  fs.mkdirSync(path.join(tree, '.git'), { recursive: true })
  fs.writeFileSync(path.join(tree, '.git/HEAD'), 'ref: refs/heads/main\n')
  await fillStore(tree, size)
  return {
    name: hookName(size),
    command: [process.execPath, path.join(ROOT, 'dist/cli/main.js'), 'hook', 'claude'],
    env: { XDG_STATE_HOME: path.join(tree, '.git/state') },
    // Each time another session, which edits a file that is free.
    inputOf: (round) => {
      const file_path = path.join(tree, `edited-${round}.ts`)
      const call = { tool_name: 'Edit', tool_input: { file_path } }
      const event = { session_id: `s${round}`, cwd: tree, hook_event_name: 'PreToolUse', ...call }
      return JSON.stringify(event)
    },
  }
}

async function fillStore(tree: string, size: number): Promise<void> {
  const api = await openApi(`sqlite:${path.join(tree, '.git/tenure.db')}`)
  const common = { holder: 'others', session: 'others', ttlMs: TTL_MS, waitMs: 0 }
  for (let start = 0; start < size; start += AT_ONCE) {
    const count = Math.min(AT_ONCE, size - start)
    await Promise.all(
      Array.from({ length: count }, (_, index) => {
        const resource = parseResource(`file:${tree}/src/f${start + index}.ts`)
        return api.acquire({ ...common, id: systemRuntime.uuid(), resource })
      }),
    )
  }
  await api.close()
}
