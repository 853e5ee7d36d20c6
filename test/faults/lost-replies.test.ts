/**
 * The reply is lost after the server has done what it was asked. The caller hears that the outcome is unknown, and
 * sending the same request again gives what the first one would have given and has no second effect. Nor has a call that the
 * server hears only after it has answered the repetition.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isLeaseError, type LeaseError } from '../../src/core/errors.ts'
import { openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { systemTickSource } from '../../src/runtime/tick-source.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FaultyStore } from '../../src/testing/faulty-store.ts'
import { Proxy, type DeliverCall } from '../servers/proxy.ts'
import type { TestServer } from '../servers/test-server.ts'
import { COMMANDS, type ReadyCommand } from './lost-commands.ts'
import { freshStore, SERVER_STORES } from './server-stores.ts'

/** A store by a way on which replies can be lost, and by a way on which they cannot. */
interface Wire {
  readonly api: LeaseApi
  readonly direct: LeaseApi
  /** The request that commits the command is carried out, and its reply lost. */
  loseReply(command: ReadyCommand, isCommitted: () => Promise<boolean>): void
  close(): Promise<void>
}

function memoryWire(): Wire {
  const store = new MemoryStore({ ticks: systemTickSource(), url: 'memory:' })
  let isLosing = false
  const weather = ({ method }: { readonly method: string }) => {
    if (!isLosing || method !== 'transact') return undefined
    isLosing = false
    return { fault: 'lost_answer' } as const
  }
  const faulty = new FaultyStore({ store, weather })
  const api = new LeaseService({ store: faulty, runtime: systemRuntime })
  const direct = new LeaseService({ store, runtime: systemRuntime })
  const loseReply = (): void => {
    isLosing = true
  }
  return { api, direct, loseReply, close: () => store.close() }
}

/** A way on which calls can be late as well. */
interface SlowWire extends Wire {
  /** The next request of the command is held, and delivered when the answer is called. */
  holdCall(command: ReadyCommand): Promise<DeliverCall>
}

async function serverWire(server: TestServer): Promise<SlowWire> {
  const url = freshStore(server.url)
  const proxy = await Proxy.start(url)
  const [api, direct] = await Promise.all([openApi(proxy.through(url)), openApi(url)])
  return {
    ...{ api, direct },
    loseReply: ({ mark }, isDone) => {
      void proxy.loseReply({ request: (bytes) => bytes.includes(mark), isDone })
    },
    holdCall: ({ mark }) => proxy.holdCall((bytes) => bytes.includes(mark)),
    close: async () => {
      await Promise.all([api.close(), direct.close()])
      await proxy.close()
    },
  }
}

async function effectsOf({ direct }: Wire, { effect }: ReadyCommand): Promise<number> {
  const { leaseId, type } = effect
  return (await direct.history({ id: leaseId, types: [type] })).length
}

async function errorOf(call: Promise<unknown>): Promise<LeaseError> {
  const error: unknown = await call.then(
    (answer) => new Error(`answered ${JSON.stringify(answer)}`),
    (thrown: unknown) => thrown,
  )
  if (!isLeaseError(error)) throw error
  return error
}

/**
 * A store may ask before it commits, or be told that it decided on what is no longer so, or too late. Those replies
 * get through: it is the reply of the commit that is lost, however many calls come before it.
 */
async function loseReplyOfCommit(wire: Wire, command: ReadyCommand): Promise<void> {
  const before = await effectsOf(wire, command)
  wire.loseReply(command, async () => (await effectsOf(wire, command)) > before)
  const error = await errorOf(command.send())
  expect(error).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
}

/**
 * A connection that was cut may have to be opened anew; until then nothing can come of a request. The test's own timeout
 * ends the wait.
 */
async function whenReachable<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await send()
    } catch (error) {
      const isAway = isLeaseError(error) && error.code === 'STORE_UNAVAILABLE'
      if (!isAway) throw error
      await sleep(10)
    }
  }
}

function itIsHeardOnce(wire: () => Wire): void {
  it.each(COMMANDS.map((one) => [one.name, one] as const))('%s', async (_name, { prepare }) => {
    const command = await whenReachable(() => prepare(wire().api))
    const before = await effectsOf(wire(), command)
    await loseReplyOfCommit(wire(), command)
    expect(await whenReachable(command.send)).toMatchObject(command.answer)
    expect(await whenReachable(command.send)).toMatchObject(command.answer)
    expect(await effectsOf(wire(), command)).toBe(before + 1)
  })
}

function itHasNoEffectLate(wire: () => SlowWire): void {
  it.each(COMMANDS.map((one) => [one.name, one] as const))('%s', async (_name, { prepare }) => {
    const command = await whenReachable(() => prepare(wire().api))
    const before = await effectsOf(wire(), command)
    const held = wire().holdCall(command)
    expect(await errorOf(command.send())).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
    const deliver = await held
    await whenReachable(command.send)
    expect(await effectsOf(wire(), command)).toBe(before + 1)
    const ledger = await wire().direct.history({})
    await deliver()
    expect(await wire().direct.history({})).toEqual(ledger)
  })
}

describe('on memory, a command whose reply was lost is heard once', () => {
  const wire = memoryWire()
  afterAll(() => wire.close())
  itIsHeardOnce(() => wire)
})

describe.each(SERVER_STORES)('on %s, a command', (_name, store) => {
  let wire: SlowWire

  beforeAll(async () => {
    const server = await store.start()
    wire = await serverWire(server)
    return async () => {
      await wire.close()
      await server.close()
    }
  })

  describe('whose reply was lost is heard once', () => itIsHeardOnce(() => wire))

  describe('that reaches the server after its repetition was answered has no second effect', () =>
    itHasNoEffectLate(() => wire))
})
