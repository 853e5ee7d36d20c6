/** What an agent's hook has leased for it, the agent commits, and nobody else. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  temporaryRepository,
  withGuards,
  type TemporaryRepository,
} from './temporary-repository.ts'

/** Calls the hook of a client as the client would. */
async function hook(
  { shell, root, directory }: TemporaryRepository,
  call: string,
  event: Readonly<Record<string, unknown>>,
): Promise<void> {
  const file = path.join(directory, 'event.json')
  fs.writeFileSync(file, JSON.stringify({ session_id: 's-1', cwd: root, ...event }))
  const env = { XDG_STATE_HOME: path.join(directory, 'state') }
  expect(await shell(`${call} < '${file}'`, { env })).toEqual({ code: 0, stdout: '', stderr: '' })
}

describe('an agent', () => {
  it('of Claude Code commits in its shell what its hook has leased', async () => {
    const repository = withGuards(temporaryRepository())
    const { root, directory, attempt, shell, write } = repository
    const environment = path.join(directory, 'environment')
    const call = `unset TENURE_HOLDER; CLAUDE_ENV_FILE='${environment}' tenure hook claude`
    await hook(repository, call, { hook_event_name: 'SessionStart', source: 'startup' })
    const tool_input = { file_path: path.join(root, 'a.ts'), content: 'a.ts' }
    const tool = { tool_name: 'Write', tool_input, tool_use_id: 'call-1' }
    await hook(repository, call, { hook_event_name: 'PreToolUse', ...tool })
    write('a.ts')
    repository.git('add', 'a.ts')
    const { stderr } = await attempt(['commit', '-qm', 'x'])
    expect(stderr).toContain('a.ts is held by claude:s-1/main')
    expect((await shell(`. '${environment}'; git commit -qm x`)).code).toBe(0)
  })

  it('of another client commits what its hook has leased in the name that both were given', async () => {
    const repository = withGuards(temporaryRepository())
    const { root, attempt, shell, write } = repository
    const command = `*** Begin Patch\n*** Add File: ${root}/a.ts\n+a.ts\n*** End Patch\n`
    const tool = { tool_name: 'apply_patch', tool_input: { command }, tool_use_id: 'call-1' }
    const call = 'TENURE_HOLDER=codex-1 tenure hook codex'
    await hook(repository, call, { hook_event_name: 'PreToolUse', ...tool })
    write('a.ts')
    repository.git('add', 'a.ts')
    expect((await attempt(['commit', '-qm', 'x'])).stderr).toContain('a.ts is held by codex-1')
    expect((await shell('TENURE_HOLDER=codex-1 git commit -qm x')).code).toBe(0)
  })
})
