/** A guard that has a client hears of revocations by itself, from the ledger: nobody has to run a relay. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openTenure, type Tenure } from '../../src/index.ts'
import { onFault } from '../../src/runtime/diagnostics.ts'
import { prunedError } from '../../src/store/position.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  ActionGuard,
  claimWorkflow,
  LocalBus,
  MemoryMarks,
  type Action,
  type ActionMarks,
  type Bus,
  type Orchestrator,
} from '../../src/workflow/index.ts'
import { newClient, newWorld } from '../client/harness.ts'
import { codeOf } from './code-of.ts'

const REVOKED = /its lease was revoked/
let sources: string[]
let stop: () => void

beforeEach(() => {
  sources = []
  stop = onFault(({ source }) => sources.push(source))
})

afterEach(() => stop())

interface Stage {
  readonly orchestrator: Orchestrator
  readonly bus: LocalBus
  /** Another client than the orchestrator's. */
  readonly tenure: Tenure
  emit(): Promise<Action>
  revoke(): Promise<void>
}

async function newStage(url = 'memory:'): Promise<Stage> {
  const own = await openTenure(url, { holder: 'orchestrator-1' })
  const tenure = url === 'memory:' ? own : await openTenure(url, { holder: 'processor' })
  onTestFinished(async () => {
    await Promise.all([own.close(), tenure.close()])
  })
  const bus = new LocalBus()
  const orchestrator = await claimWorkflow(own, 'w', { bus })
  return {
    ...{ orchestrator, bus, tenure },
    emit: () => orchestrator.emit('A', {}, { target: 'compute' }),
    revoke: () => tenure.revoke(orchestrator.leaseId, { reason: 'stuck' }),
  }
}

/** The test's own timeout ends the wait. */
async function untilRevoked(guard: ActionGuard, action: Action): Promise<void> {
  for (;;) {
    try {
      guard.validate(action)
    } catch (error) {
      if (REVOKED.test(String(error))) return
      throw error
    }
    await sleep(5)
  }
}

function sqliteUrl(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-revoked-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return `sqlite:${directory}/leases.db`
}

/** A client some of whose calls are the test's own. */
function partly(tenure: Tenure, own: Partial<Tenure>): Tenure {
  return new Proxy(tenure, {
    get: (_, name: keyof Tenure) => {
      const value: unknown = own[name] ?? tenure[name]
      return typeof value === 'function' ? value.bind(tenure) : value
    },
  })
}

describe('a guard with a client', () => {
  it.each([
    ['memory', () => 'memory:'],
    ['sqlite', sqliteUrl],
  ])('refuses what a revoked orchestrator has in hand, on %s', async (_, urlOf) => {
    const { tenure, emit, revoke } = await newStage(urlOf())
    await using guard = new ActionGuard({ tenure })
    // It asks the store whose the workflow is: nobody told it.
    expect(await guard.process(await emit(), () => 'done')).toBe('done')
    const inHand = await emit()
    expect(guard.validate(inHand)).toBe(true)
    await revoke()
    await untilRevoked(guard, inHand)
    await expect(guard.process(inHand, () => 'done')).rejects.toMatchObject({
      code: 'LEASE_VIOLATION',
      details: { action_epoch: 1, current_epoch: 0 },
    })
  })

  it('hears of it although what came after the last event that is kept was pruned', async () => {
    const { tenure, emit, revoke } = await newStage()
    const [one, two] = [await emit(), await emit()]
    const [first, second] = await tenure.history({ refusals: false })
    const [kept, prunedUpTo] = [first?.position ?? '', second?.position ?? '']
    const history: Tenure['history'] = () => tenure.history({ limit: 1 })
    const watch: Tenure['watch'] = (options) => {
      if (options?.after === kept) throw prunedError(kept, prunedUpTo)
      return tenure.watch(options)
    }
    await using guard = new ActionGuard({ tenure: partly(tenure, { history, watch }) })
    expect(await guard.process(one, () => 'done')).toBe('done')
    await revoke()
    await untilRevoked(guard, two)
  })

  it('hears of it after setLease as well, without any action', async () => {
    const { tenure, orchestrator, emit, revoke } = await newStage()
    await using guard = new ActionGuard({ tenure })
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
    const action = await emit()
    expect(guard.validate(action)).toBe(true)
    await revoke()
    await untilRevoked(guard, action)
  })

  it('asks once about a lease that lasting marks know: it may have been revoked meanwhile', async () => {
    const { tenure, orchestrator, emit, revoke } = await newStage()
    const marks = new MemoryMarks()
    const before = new ActionGuard({ marks })
    await before.setLease('w', orchestrator.leaseId, orchestrator.fence)
    const [one, two] = [await emit(), await emit()]
    await before.process(one, () => undefined)
    await revoke()
    expect(before.validate(two)).toBe(true)
    const asked: string[] = []
    const get: Tenure['get'] = (id) => {
      asked.push(id)
      return tenure.get(id)
    }
    await using after = new ActionGuard({ marks, tenure: partly(tenure, { get }) })
    for (const _ of [1, 2]) {
      await expect(after.process(two, () => undefined)).rejects.toThrow(REVOKED)
    }
    expect(asked).toEqual([orchestrator.leaseId])
  })

  it('asks each time while it cannot follow the ledger', async () => {
    const { tenure, orchestrator, emit, revoke } = await newStage()
    const history: Tenure['history'] = async () => []
    await using guard = new ActionGuard({ tenure: partly(tenure, { history }) })
    await guard.setLease('w', orchestrator.leaseId, orchestrator.fence)
    const [one, two] = [await emit(), await emit()]
    expect(await guard.process(one, () => 'done')).toBe('done')
    await revoke()
    await expect(guard.process(two, () => 'done')).rejects.toThrow(REVOKED)
  })

  it('carries nothing out when it cannot ask: a client that was closed first', async () => {
    const { tenure, emit } = await newStage()
    const guard = new ActionGuard({ tenure })
    const [one, two] = [await emit(), await emit()]
    await guard.process(one, () => 'done')
    await tenure.close()
    while ((await codeOf(guard.process(two, () => 'done'))) !== 'CLOSED') await sleep(1)
    await guard.close()
    expect(sources).toEqual([])
  })
})

describe('the watch of a guard', () => {
  it('reports what fails, goes on where it was, and misses nothing', async () => {
    const { tenure, emit, revoke } = await newStage()
    let tries = 0
    const watch: Tenure['watch'] = (options) => {
      tries += 1
      if (tries <= 2) throw new Error(`no luck ${tries}`)
      return tenure.watch(options)
    }
    await using guard = new ActionGuard({ tenure: partly(tenure, { watch }) })
    await guard.process(await emit(), () => undefined)
    const inHand = await emit()
    await revoke()
    await untilRevoked(guard, inHand)
    expect(tries).toBe(3)
    expect(sources).toEqual(['workflow/revocations'])
  })

  it('reports marks that cannot be written, and the revocation counts in this process', async () => {
    const { tenure, emit, revoke } = await newStage()
    const memory = new MemoryMarks()
    let isAway = false
    const marks: ActionMarks<undefined> = {
      peek: (ref) => memory.peek(ref),
      transact: (ref, decide) =>
        isAway ? Promise.reject(new Error('away')) : memory.transact(ref, decide),
    }
    await using guard = new ActionGuard({ tenure, marks })
    await guard.process(await emit(), () => undefined)
    const inHand = await emit()
    isAway = true
    await revoke()
    await untilRevoked(guard, inHand)
    while (sources.length === 0) await sleep(1)
    expect(sources).toEqual(['workflow/revocations'])
  })

  it('ends with the guard, which leaves nothing open', async () => {
    const runtime = new FakeRuntime()
    const world = newWorld(runtime)
    const { tenure } = newClient(world, 'one')
    const bus = new LocalBus({ runtime })
    const orchestrator = await claimWorkflow(tenure, 'w', { bus, runtime })
    const idleTimers = runtime.pendingTimers
    const guard = new ActionGuard({ tenure, runtime })
    const done: number[] = []
    await guard.subscribe(bus, 'compute', (_, { action }) => done.push(action.epoch))
    await orchestrator.emit('A', {}, { target: 'compute' })
    await bus.idle()
    expect(done).toEqual([0])
    expect(runtime.pendingTimers).toBeGreaterThan(idleTimers)
    await guard.close()
    await guard.close()
    expect(runtime.pendingTimers).toBe(idleTimers)
    const action = await orchestrator.emit('B', {}, { target: 'compute' })
    await bus.idle()
    expect(done).toEqual([0])
    const uses = [
      () => guard.process(action, () => undefined),
      () => guard.setLease('w', action.leaseId, action.fence),
      () => guard.subscribe(bus, 'compute', () => undefined),
    ]
    for (const use of uses) expect(await codeOf(use())).toBe('CLOSED')
  })

  it('ends with the guard although a bus cannot end a subscription', async () => {
    const runtime = new FakeRuntime()
    const world = newWorld(runtime)
    const { tenure } = newClient(world, 'one')
    const bus: Bus = {
      publish: async () => undefined,
      announce: async () => undefined,
      subscribe: async () => ({ close: () => Promise.reject(new Error('the bus is away')) }),
    }
    const { leaseId, fence } = await claimWorkflow(tenure, 'w', { bus, runtime })
    const idleTimers = runtime.pendingTimers
    const guard = new ActionGuard({ tenure, runtime })
    await guard.subscribe(bus, 'compute', () => undefined)
    await guard.setLease('w', leaseId, fence)
    expect(runtime.pendingTimers).toBeGreaterThan(idleTimers)
    await expect(guard.close()).rejects.toThrow('the bus is away')
    expect(runtime.pendingTimers).toBe(idleTimers)
  })

  it('ends with the signal that the guard was given', async () => {
    const { tenure, bus, emit } = await newStage()
    const ending = new AbortController()
    const guard = new ActionGuard({ tenure, signal: ending.signal })
    await guard.subscribe(bus, 'compute', () => undefined)
    ending.abort()
    await guard.close()
    expect(await codeOf(guard.process(await emit(), () => undefined))).toBe('CLOSED')
    const late = new ActionGuard({ signal: ending.signal })
    expect(await codeOf(late.process(await emit(), () => undefined))).toBe('CLOSED')
    expect(sources).toEqual([])
  })
})
