import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import type { Inspection, LeaseList, LedgerEntry } from '../../src/service/lease-api.ts'
import { MAIN, startProgram, until, workshop, type Workshop } from './tenure-process.ts'

/** What a process can catch and would else die of, beside what people end commands with. */
const PASSED_ON = (
  ['SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGXCPU', 'SIGIO', 'SIGPWR'] as const
).filter((name) => name in os.constants.signals)

async function isHeld(shop: Workshop, resource: string): Promise<boolean> {
  const { leases }: Inspection = await shop.json(['why', resource])
  return leases.length > 0
}

async function endOf(shop: Workshop): Promise<LeaseInfo | undefined> {
  const { leases }: LeaseList = await shop.json(['ls', '--all'])
  return leases.at(-1)
}

describe('a command that runs under a lease', () => {
  it('finds resource, lease, fence, store and holder in its environment', async () => {
    const shop = workshop()
    const script =
      'echo "$TENURE_RESOURCE $TENURE_LEASE_ID $TENURE_FENCE $TENURE_STORE $TENURE_HOLDER"'
    const args = ['run', 'a.ts', '--holder', 'ann', '--', 'sh', '-c', script]
    const { code, stdout, stderr } = await shop.tenure(args)
    expect([code, stderr]).toEqual([0, ''])
    const lease = await endOf(shop)
    const { resource, id, fence } = lease ?? {}
    expect(stdout).toBe(`${resource} ${id} ${fence} ${shop.storeUrl} ann\n`)
    expect(lease).toMatchObject({ state: 'released', releaseReason: 'completed' })
  })

  it('belongs to the session of its run: what that holds it cannot wait for', async () => {
    const shop = workshop()
    const inner = [process.execPath, MAIN, 'run', 'work:A', '--wait', '60s', '--', 'true']
    const { code, stderr } = await shop.tenure(['run', 'work:A', '--', ...inner])
    expect([code, stderr]).toEqual([10, expect.stringContaining('release it first')])
    const session = ['--', 'sh', '-c', 'echo "$TENURE_SESSION"']
    const named = await shop.tenure(['run', 'work:A', '--session', 's1', ...session])
    expect(named.stdout).toBe('s1\n')
    const again = await shop.tenure(['run', 'work:A', ...session], {
      env: { TENURE_SESSION: 's2' },
    })
    expect(again.stdout).toBe('s2\n')
  })

  it('waits for ever if it is told to', async () => {
    const shop = workshop()
    const { id }: LeaseInfo = await shop.json(['acquire', 'work:A', '--holder', 'ann'])
    const run = shop.start(['run', 'work:A', '--holder', 'bob', '--wait', 'forever', '--', 'true'])
    const isQueued = async (): Promise<boolean> => {
      const { queue }: Inspection = await shop.json(['why', 'work:A'])
      return queue.length === 1
    }
    await until(isQueued)
    await shop.tenure(['release', id, '--holder', 'ann'])
    expect(await run.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('is refused when it would wait for ever for another that waits for its run', async () => {
    const shop = workshop()
    const nested = (mine: string, other: string): readonly string[] => {
      const ready = `touch ${mine}; until [ -e ${other} ]; do sleep 0.05; done`
      const asks = `"${process.execPath}" "${MAIN}" run work:${other} --wait 60s -- true`
      return ['run', `work:${mine}`, '--', 'sh', '-c', `${ready}; ${asks}`]
    }
    const ended = await Promise.all([shop.tenure(nested('A', 'B')), shop.tenure(nested('B', 'A'))])
    const refused = ended.filter(({ stderr }) => stderr.includes('(DEADLOCK)'))
    const served = ended.filter(({ code }) => code === 0)
    expect([refused.length, served.length]).toEqual([1, 1])
  })

  it('passes its exit status on, and its lease says that it failed', async () => {
    const shop = workshop()
    expect((await shop.tenure(['run', 'work:1', '--', 'sh', '-c', 'exit 7'])).code).toBe(7)
    expect(await endOf(shop)).toMatchObject({ state: 'released', releaseReason: 'aborted' })
  })

  it('that ended by a signal gives 128 and its number', async () => {
    const shop = workshop()
    expect((await shop.tenure(['run', 'work:1', '--', 'sh', '-c', 'kill -9 $$'])).code).toBe(137)
  })

  it.each([
    [
      'is not there',
      'no-such-command',
      127,
      'tenure: cannot run no-such-command: command not found\n',
    ],
    ['cannot be run', '/etc/passwd', 126, 'tenure: cannot run /etc/passwd: EACCES\n'],
    ['is below a file', '/etc/passwd/x', 126, 'tenure: cannot run /etc/passwd/x: ENOTDIR\n'],
    ['has no name', '', 127, 'tenure: cannot run : command not found\n'],
  ])('that %s leaves no lease behind', async (_case, command, code, stderr) => {
    const shop = workshop()
    expect(await shop.tenure(['run', 'work:1', '--', command])).toEqual({
      code,
      stdout: '',
      stderr,
    })
    expect(await isHeld(shop, 'work:1')).toBe(false)
  })

  it('is not started while another holds the resource', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    const refused = await shop.tenure(['run', 'work:1', '--', 'touch', 'started'])
    expect(refused.code).toBe(10)
    expect(fs.existsSync(path.join(shop.directory, 'started'))).toBe(false)
  })

  it('waits for another run of the same user, because each is a session of its own', async () => {
    const shop = workshop()
    const wait = ['run', 'work:1', '--wait', '40s', '--']
    const script = 'echo in >> log; sleep 0.2; echo out >> log'
    const both = await Promise.all(
      [1, 2].map(async () => shop.tenure([...wait, 'sh', '-c', script])),
    )
    expect(both.map(({ code }) => code)).toEqual([0, 0])
    const log = fs.readFileSync(path.join(shop.directory, 'log'), 'utf8')
    expect(log).toBe('in\nout\nin\nout\n')
  })

  it('keeps its lease by renewing it, beyond its ttl', async () => {
    const shop = workshop()
    const script = 'until [ -e enough ]; do sleep 0.05; done'
    const running = shop.start(['run', 'work:1', '--ttl', '5s', '--', 'sh', '-c', script])
    const renewals = async (): Promise<readonly LedgerEntry[]> => {
      return shop.json(['history', '--type', 'renewed'])
    }
    await until(async () => {
      const [issued]: LedgerEntry[] = await shop.json(['history', '--type', 'acquired'])
      const last = (await renewals()).at(-1)
      const heldMs = (last?.event.atMs ?? 0) - (issued?.event.atMs ?? 0)
      return heldMs > 5_000 || running.process.exitCode !== null
    })
    fs.writeFileSync(path.join(shop.directory, 'enough'), '')
    expect((await running.ended).code).toBe(0)
    expect((await renewals()).length).toBeGreaterThan(1)
    expect(await endOf(shop)).toMatchObject({ state: 'released', releaseReason: 'completed' })
  })

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'is told of %s and decides itself',
    async (name) => {
      const shop = workshop()
      const script = `trap 'exit 42' ${name.slice(3)}; echo ready; while :; do sleep 0.05; done`
      const running = shop.start(['run', 'work:1', '--', 'sh', '-c', script])
      await running.says('ready')
      running.process.kill(name)
      expect((await running.ended).code).toBe(42)
      expect(await isHeld(shop, 'work:1')).toBe(false)
    },
  )

  it('is told of every signal that would end a process, and its run goes on', async () => {
    const shop = workshop()
    const names = PASSED_ON.map((name) => name.slice(3))
    const traps = names.map((name) => `trap 'echo heard ${name}.' ${name}`).join('; ')
    const script = `${traps}; trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done`
    const running = shop.start(['run', 'work:1', '--', 'sh', '-c', script])
    await running.says('ready')
    for (const name of names) {
      running.process.kill(`SIG${name}` as NodeJS.Signals)
      await running.says(`heard ${name}.`)
    }
    expect(await isHeld(shop, 'work:1')).toBe(true)
    running.process.kill('SIGTERM')
    const { code, stderr } = await running.ended
    expect(code).toBe(42)
    // Node opens its debugger at SIGUSR1, unless somebody listens, and says so.
    expect(stderr).not.toContain('Debugger')
    expect(await isHeld(shop, 'work:1')).toBe(false)
  })

  it('that a signal ends ends its run, which gives the lease back', async () => {
    const shop = workshop()
    const running = shop.start(['run', 'work:1', '--', 'sh', '-c', 'echo ready; sleep 60'])
    await running.says('ready')
    running.process.kill('SIGUSR2')
    expect((await running.ended).code).toBe(128 + os.constants.signals.SIGUSR2)
    expect(await isHeld(shop, 'work:1')).toBe(false)
  })

  it('is never started when SIGUSR1 comes while tenure itself is loaded', async () => {
    const shop = workshop()
    const started = path.join(shop.directory, 'started')
    // The modules of the command line come late, so that the signal comes before them.
    const hooks = `import fs from 'node:fs'
      export async function load(url, context, next) {
        if (!url.endsWith('/cli/command-line.js')) return next(url, context)
        fs.writeSync(1, 'loading')
        return new Promise((resolve) => setTimeout(() => resolve(next(url, context)), 5000))
      }`
    const data = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`
    const register = `import { register } from 'node:module'; register(${JSON.stringify(data(hooks))})`
    const run = ['run', 'work:1', '--store', shop.storeUrl, '--', 'touch', started]
    const running = startProgram([process.execPath, '--import', data(register), MAIN, ...run])
    await running.says('loading')
    running.process.kill('SIGUSR1')
    const code = 128 + os.constants.signals.SIGUSR1
    expect(await running.ended).toEqual({ code, stdout: 'loading', stderr: '' })
    expect(fs.existsSync(started)).toBe(false)
  })

  it.each(['SIGTERM', 'SIGUSR1', 'SIGALRM'] as const)(
    'is never started when %s comes while it waits',
    async (name) => {
      const shop = workshop()
      await shop.json(['acquire', 'work:1', '--holder', 'ann'])
      const waiting = shop.start(['run', 'work:1', '--wait', '1m', '--', 'touch', 'started'])
      const queued = async (): Promise<number> => {
        const { queue }: Inspection = await shop.json(['why', 'work:1'])
        return queue.length
      }
      await until(async () => (await queued()) === 1)
      waiting.process.kill(name)
      const code = 128 + os.constants.signals[name]
      expect(await waiting.ended).toEqual({ code, stdout: '', stderr: '' })
      expect(fs.existsSync(path.join(shop.directory, 'started'))).toBe(false)
      expect(await queued()).toBe(0)
    },
  )
})

describe('a command that was not run because the resource is held', () => {
  const isHeldByAnn = async (): Promise<ReturnType<typeof workshop>> => {
    const shop = workshop()
    await shop.json(['acquire', 'work:1', '--holder', 'ann'])
    return shop
  }
  const command = ['--', 'sh', '-c', 'exit 10']

  it('ends with the status of --conflict-exit-code, and the same words', async () => {
    const shop = await isHeldByAnn()
    const own = ['run', 'work:1', '--holder', 'ben', '--conflict-exit-code', '75']
    for (const more of [[], ['--wait', '1ms']]) {
      const { code, stdout, stderr } = await shop.tenure([...own, ...more, ...command])
      expect([code, stdout]).toEqual([75, ''])
      expect(stderr).toMatch(/^tenure: work:1 .*ann.* \((RESOURCE_HELD|WAIT_TIMEOUT)\)\n$/)
    }
    const { code, stderr } = await shop.tenure([...own, '--json', ...command])
    expect(code).toBe(75)
    expect(JSON.parse(stderr)).toMatchObject({ code: 'RESOURCE_HELD' })
  })

  it('differs from one that ran and ended with 10 itself', async () => {
    const shop = await isHeldByAnn()
    const other = ['run', 'work:2', '--conflict-exit-code', '75', ...command]
    expect((await shop.tenure(other)).code).toBe(10)
    expect((await shop.tenure(['run', 'work:1', '--holder', 'ben', ...command])).code).toBe(10)
  })

  it('has the status of its own fault when that is not a conflict', async () => {
    const shop = await isHeldByAnn()
    const wrong = ['run', 'Work', 'work:3', '--ttl', '0ms', '--conflict-exit-code', '75']
    expect((await shop.tenure([...wrong, ...command])).code).toBe(2)
  })
})

describe('a command whose lease is lost', () => {
  it('is ended with all it started, and the exit status says lost', async () => {
    const shop = workshop()
    const running = shop.start(['run', 'work:1', '--', 'sh', '-c', 'sleep 60 & echo ready; wait'])
    await running.says('ready')
    await shop.json(['revoke', 'work:1', '--holder', 'op'])
    // The sleep has stdout too: this resolves when the last of them is gone.
    const { code, stderr } = await running.ended
    expect(code).toBe(14)
    expect(stderr).toMatch(/^tenure: lease .* of work:1 was lost: .*revoked.* \(LEASE_LOST\)\n$/)
  })

  it('is killed after the grace when it does not listen', async () => {
    const shop = workshop()
    const script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    const args = ['run', 'work:1', '--grace', '300ms', '--json', '--', 'sh', '-c', script]
    const running = shop.start(args)
    await running.says('ready')
    await shop.json(['revoke', 'work:1', '--holder', 'op'])
    const { code, stderr } = await running.ended
    expect(code).toBe(14)
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'LEASE_LOST',
      details: { resource: 'work:1' },
    })
  })

  it('is ended when --max-hold is reached, however well it renews', async () => {
    const shop = workshop()
    const limits = ['--ttl', '3s', '--max-hold', '4s']
    const { code } = await shop.tenure(['run', 'work:1', ...limits, '--', 'sleep', '60'])
    expect(code).toBe(14)
    expect(await isHeld(shop, 'work:1')).toBe(false)
  })
})
