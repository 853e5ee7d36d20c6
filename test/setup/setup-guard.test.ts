import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { withSetupGuard } from '../../scripts/setup-guard.mjs'

const MODULE = new URL('../../scripts/setup-guard.mjs', import.meta.url)

let folder: string
let guard: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tenure-guard-'))
  guard = join(folder, 'guard')
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

function pretendHeldBy(owner: { host: string; pid: number }): void {
  mkdirSync(guard)
  writeFileSync(join(guard, 'owner.json'), JSON.stringify(owner))
}

function pidOfEndedProcess(): number {
  return spawnSync(process.execPath, ['-e', '']).pid
}

/** Enters and leaves `log` around a moment of work, as a set-up in a process of its own would. */
async function workInAnotherProcess(log: string): Promise<void> {
  const program = `
    import { appendFileSync } from 'node:fs'
    import { withSetupGuard } from ${JSON.stringify(MODULE.href)}
    await withSetupGuard(${JSON.stringify(guard)}, async () => {
      appendFileSync(${JSON.stringify(log)}, 'in\\n')
      await new Promise((resolve) => setTimeout(resolve, 30))
      appendFileSync(${JSON.stringify(log)}, 'out\\n')
    })`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = await once(child, 'close')
  expect(code).toBe(0)
}

describe('the guard of a set-up', () => {
  test('returns what the work returns and leaves nothing behind', async () => {
    await expect(withSetupGuard(guard, async () => 7)).resolves.toBe(7)
    expect(readdirSync(folder)).toEqual([])
  })

  test('is given up when the work fails', async () => {
    const failing = withSetupGuard(guard, () => Promise.reject(new Error('no network')))
    await expect(failing).rejects.toThrow('no network')
    expect(existsSync(guard)).toBe(false)
  })

  test('lets one process at a time work, also when the last one was killed', async () => {
    pretendHeldBy({ host: hostname(), pid: pidOfEndedProcess() })
    const log = join(folder, 'log')
    await Promise.all(Array.from({ length: 5 }, () => workInAnotherProcess(log)))
    expect(readFileSync(log, 'utf8')).toBe('in\nout\n'.repeat(5))
    expect(readdirSync(folder)).toEqual(['log'])
  })

  test('says once whom it waits for, and in the end what to delete', async () => {
    pretendHeldBy({ host: hostname(), pid: process.pid })
    const seen: unknown[] = []
    const waiting = withSetupGuard(guard, async () => {}, {
      onWait: (owner) => seen.push(owner),
      waitMsMax: 2_000,
    })
    await expect(waiting).rejects.toThrow(`process ${process.pid} on ${hostname()}`)
    await expect(waiting).rejects.toThrow(`delete ${guard}`)
    expect(seen).toEqual([{ host: hostname(), pid: process.pid }])
  })

  test('does not judge processes of another host', async () => {
    pretendHeldBy({ host: 'elsewhere', pid: pidOfEndedProcess() })
    const waiting = withSetupGuard(guard, async () => {}, { waitMsMax: 0 })
    await expect(waiting).rejects.toThrow('on elsewhere')
  })
})
