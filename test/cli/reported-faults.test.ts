/** What the command line could not do in passing is reported with its source, and what it did for it is done all the same. */
import { EventEmitter } from 'node:events'
import os from 'node:os'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ChildCommand, descendantsOf, signalProcess } from '../../src/cli/commands/run.ts'
import { tellAgent } from '../../src/demo/cast.ts'
import { LiveView } from '../../src/cli/commands/demo.ts'
import { identify } from '../../src/cli/identity.ts'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { plain } from '../../src/cli/output.ts'
import { isTty } from '../../src/cli/terminal.ts'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'
import { fs } from '../../src/runtime/file-system.ts'
import type { Questions } from '../../src/service/lease-questions.ts'
import { workshop } from './tenure-process.ts'

let faults: Fault[]
let stop: () => void

beforeEach(() => {
  faults = []
  stop = onFault((fault) => faults.push(fault))
})

afterEach(() => {
  stop()
  vi.restoreAllMocks()
})

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: made to fail`), { code })
}

function sources(): readonly string[] {
  return faults.map(({ source }) => source)
}

const linux = describe.runIf(process.platform === 'linux')

linux('a process that was started', () => {
  const self = (): { pid: number; started: string } => {
    const stat = fs.readFileSync(`/proc/${process.pid}/stat`, 'utf8')
    const started = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
    return { pid: process.pid, started }
  }

  it('and cannot be signalled is reported; one that has ended is not', () => {
    const kill = vi.spyOn(process, 'kill')
    kill.mockImplementation(() => {
      throw failure('EPERM')
    })
    signalProcess(self(), 'SIGUSR2')
    expect(sources()).toEqual(['cli/signal'])
    kill.mockImplementation(() => {
      throw failure('ESRCH')
    })
    signalProcess(self(), 'SIGUSR2')
    expect(faults).toHaveLength(1)
  })

  it('and cannot be looked for is reported; a system without /proc has nothing to look in', () => {
    const list = vi.spyOn(fs, 'readdirSync')
    list.mockImplementation(() => {
      throw failure('EMFILE')
    })
    expect(descendantsOf(process.pid)).toEqual([])
    expect(sources()).toEqual(['cli/process-tree'])
    list.mockImplementation(() => {
      throw failure('ENOENT')
    })
    expect(descendantsOf(process.pid)).toEqual([])
    expect(faults).toHaveLength(1)
  })

  it('and cannot be looked at is reported; one that has ended is not', () => {
    const me = self()
    const read = vi.spyOn(fs, 'readFileSync')
    read.mockImplementation(() => {
      throw failure('EMFILE')
    })
    signalProcess(me, 'SIGUSR2')
    expect(sources()).toEqual(['cli/process-tree'])
    for (const code of ['ENOENT', 'ESRCH']) {
      read.mockImplementation(() => {
        throw failure(code)
      })
      signalProcess(me, 'SIGUSR2')
    }
    expect(faults).toHaveLength(1)
  })
})

describe('the command of a run', () => {
  it('whose group cannot be signalled is reported', async () => {
    vi.spyOn(fs, 'fstatSync').mockReturnValue({ isCharacterDevice: () => false } as never)
    const child = new ChildCommand([process.execPath, '-e', ''], process.env)
    const kill = vi.spyOn(process, 'kill').mockImplementation(() => {
      throw failure('EPERM')
    })
    child.forward('SIGTERM')
    expect(sources()).toEqual(['cli/signal'])
    kill.mockRestore()
    expect(await child.ended).toMatchObject({ kind: 'exited', exitCode: 0 })
    await child.terminate(1_000)
    expect(faults).toHaveLength(1)
  })
})

describe('a place to write to', () => {
  it('that cannot be looked at is no terminal, and is reported unless it is closed', () => {
    const look = vi.spyOn(fs, 'fstatSync')
    look.mockImplementation(() => {
      throw failure('EIO')
    })
    expect(isTty(1)).toBe(false)
    expect(sources()).toEqual(['cli/terminal'])
    look.mockImplementation(() => {
      throw failure('EBADF')
    })
    expect(isTty(1)).toBe(false)
    expect(faults).toHaveLength(1)
  })
})

describe('the name of the user', () => {
  const options = { store: 'memory:', namespace: undefined, holder: undefined, session: undefined }

  it('that cannot be found is reported, unless the user has none', () => {
    const look = vi.spyOn(os, 'userInfo')
    look.mockImplementation(() => {
      throw Object.assign(failure('ERR_SYSTEM_ERROR'), { info: { code: 'EMFILE' } })
    })
    expect(identify(options, '/', { USER: 'ann' }).holder).toBe(`ann@${os.hostname()}`)
    expect(sources()).toEqual(['cli/user-name'])
    look.mockImplementation(() => {
      throw Object.assign(failure('ERR_SYSTEM_ERROR'), { info: { code: 'ENOENT' } })
    })
    identify(options, '/', { USER: 'ann' })
    expect(faults).toHaveLength(1)
  })
})

describe('an agent of the demo', () => {
  it('that cannot be told anything is reported, unless it has ended', () => {
    const agent = Object.assign(new EventEmitter(), {
      send: (_message: unknown, done: (error: Error | null) => void) => {
        done(failure(agent.code))
        return false
      },
      code: 'ENOMEM',
    })
    tellAgent(agent as never, 'finish')
    expect(sources()).toEqual(['cli/demo'])
    for (const code of ['ERR_IPC_CHANNEL_CLOSED', 'EPIPE']) {
      agent.code = code
      tellAgent(agent as never, 'finish')
    }
    expect(faults).toHaveLength(1)
  })
})

describe('the picture of the demo', () => {
  it('that cannot be drawn because the store is away is reported', async () => {
    const list = async (): Promise<never> => Promise.reject(failure('STORE_UNAVAILABLE'))
    const cast = { onReport: () => undefined }
    const options = { api: { list }, cast, paint: plain, write: () => undefined, columns: 80 }
    const view = new LiveView(options as never)
    await view.close()
    expect(sources()).toEqual(['cli/demo/view'])
  })
})

describe('an event that does not follow from those before it', () => {
  it('is reported, and its lease is named', async () => {
    const leaseId = '00000000-0000-4000-8000-000000000001'
    const event = { type: 'lease.renewed', leaseId }
    let isRead = false
    const questions = {
      get: async () => null,
      list: async () => ({ leases: [], more: false }),
      history: async () => (isRead ? [] : ((isRead = true), [{ position: '1', event }])),
    } as unknown as Questions
    await firstOddLease(questions)
    expect(sources()).toEqual(['cli/verify'])
    expect(String(faults[0]?.error)).toContain('does not follow')
  })

  it('is printed by --debug, and by nothing else', async () => {
    const shop = workshop()
    await shop.json(['keys', 'generate', '--keys', 'keys.json'])
    await shop.json(['acquire', 'work:a', '--holder', 'ada'])
    await shop.json(['ledger', 'seal', '--keys', 'keys.json'])
    await shop.json(['acquire', 'work:b', '--holder', 'bob', '--ttl', '1h'])
    await shop.json(['renew', 'work:b', '--holder', 'bob', '--ttl', '2h'])
    await shop.sql("DELETE FROM lease_history WHERE event_type = 'acquired' AND agent_id = 'bob'")
    const words = ['ledger', 'verify', '--keys', 'keys.json']
    expect(await shop.tenure(words)).toMatchObject({ stderr: '' })
    for (const debugging of [
      await shop.tenure([...words, '--debug']),
      await shop.tenure(words, { env: { TENURE_DEBUG: '1' } }),
    ]) {
      expect(debugging.stderr).toMatch(
        /^(tenure: cli\/verify: lease\.renewed of \S{36} does not follow from a lease\n)+$/,
      )
    }
  })
})
