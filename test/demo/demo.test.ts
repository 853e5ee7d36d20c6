import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { PromiseCheck } from '../../src/demo/promise-check.ts'
import { start, tenure, until, workshop, type RunOptions } from '../cli/tenure-process.ts'

const PATIENCE_MS = 110_000

/** The demo works in a directory of its own below TMPDIR; whatever it leaves behind is found there. */
function apart(): { readonly directory: string; readonly options: RunOptions } {
  const { directory, storeFile } = workshop()
  fs.rmSync(storeFile)
  return { directory, options: { env: { TMPDIR: directory }, hangsAfterMs: PATIENCE_MS } }
}

describe('the demo', () => {
  it(
    'keeps every promise with one agent killed and one stopped, and cleans up',
    async () => {
      const { directory, options } = apart()
      const { code, stdout, stderr } = await tenure(['demo', '--duration', '5s', '--json'], options)
      expect(stderr).toBe('')
      const verdict = JSON.parse(stdout) as PromiseCheck & {
        readonly brokenPromises: readonly string[]
      }
      expect(verdict.brokenPromises).toEqual([])
      expect(verdict).toMatchObject({
        overlapsInLedger: 0,
        overlapsReported: 0,
        foldDifferences: 0,
        crashed: [],
      })
      expect(verdict.staleWritersRefused).toBeGreaterThanOrEqual(1)
      expect(verdict.expiries).toBeGreaterThanOrEqual(2)
      expect(verdict.handovers).toBeGreaterThan(0)
      expect(code).toBe(0)
      expect(fs.readdirSync(directory)).toEqual([])
    },
    PATIENCE_MS,
  )

  it('shows its agents in a browser, and keeps the page after its end until it is told to stop', async () => {
    const { directory, options } = apart()
    const running = start(['demo', '--dashboard', '--duration', '5s'], options)
    let stderr = ''
    running.process.stderr?.on('data', (text: Buffer) => (stderr += text.toString()))
    await until(async () => stderr.includes('the page: '))
    const [, url = ''] = /the page: (\S+)/.exec(stderr) ?? []
    await running.says('Every promise was kept.')
    await until(async () => stderr.includes('stays at'))
    expect(await (await fetch(`${url}/`)).text()).toContain('<title>Tenure</title>')
    const events = (await (await fetch(`${url}/v1/events?types=lease.expired`)).json()) as {
      readonly events: readonly unknown[]
    }
    expect(events.events.length).toBeGreaterThanOrEqual(2)
    running.process.kill('SIGINT')
    expect((await running.ended).code).toBe(130)
    expect(fs.readdirSync(directory)).toEqual([])
  })

  it('says in a line that it has no place for its scratch directory', async () => {
    const { directory } = apart()
    const TMPDIR = `${directory}/missing`
    const { code, stderr } = await tenure(['demo'], { env: { TMPDIR } })
    expect(stderr).toMatch(/^tenure: TMPDIR must be a directory .*, got .*missing: ENOENT.*\n$/)
    expect(code).toBe(2)
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('leaves nothing behind after %s', async (signal) => {
    const { directory, options } = apart()
    const running = start(['demo'], options)
    await running.says(' holds ')
    running.process.kill(signal)
    expect((await running.ended).code).toBe(signal === 'SIGINT' ? 130 : 143)
    expect(fs.readdirSync(directory)).toEqual([])
    await until(async () => !isMentioned(directory))
  })
})

/** Whether a process still has a file of the directory open: agents keep the store and the fences open. */
function isMentioned(directory: string): boolean {
  if (!fs.existsSync('/proc/self/fd')) return false
  return fs.readdirSync('/proc').some((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => {
        return fs.readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(directory)
      })
    } catch {
      return false
    }
  })
}
