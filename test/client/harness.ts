/**
 * The production client and service on a memory store, with time that only the test moves, and an API in between that
 * can be slow, hang, fail, or lose its answers. Every request and answer passes through JSON, as between two processes.
 */
import type { Lease, Tenure } from '../../src/client/contract.ts'
import type { AcquireOptions } from '../../src/client/options.ts'
import type { GrantSigner } from '../../src/client/grant-signer.ts'
import { TenureClient } from '../../src/client/tenure-client.ts'
import { LeaseError, type ErrorCode } from '../../src/core/errors.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { overWire } from './wire-choice.ts'

type Method = {
  [Name in keyof LeaseApi]: LeaseApi[Name] extends (...input: never[]) => Promise<unknown>
    ? Name
    : never
}[keyof LeaseApi]

/** Stands between a client and the store: gets the call as a function and decides what the client hears. */
export type Fault = (send: () => Promise<unknown>, input: readonly unknown[]) => Promise<unknown>

export interface Call {
  readonly method: Method
  readonly atMs: number
  readonly request: unknown
}

export class FaultyApi {
  readonly calls: Call[] = []
  readonly api: LeaseApi
  readonly #faults = new Map<Method, Fault>()

  /** Closing a client leaves the store open: other clients of the test still use it. */
  constructor(service: LeaseApi, runtime: FakeRuntime) {
    this.when('close', () => Promise.resolve())
    this.api = new Proxy(service, {
      get: (target, name: keyof LeaseApi) => {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        // It only says who is there, and asks the store nothing.
        if (name === 'standBy') return value.bind(target)
        return (...input: unknown[]): unknown => {
          const method = name as Method
          this.calls.push({ method, atMs: runtime.monotonicMs(), request: input[0] })
          const send = (): Promise<unknown> => Reflect.apply(value, target, input)
          const fault = this.#faults.get(method)
          return fault === undefined ? send() : fault(send, input)
        }
      },
    })
  }

  when(method: Method, fault: Fault): void {
    this.#faults.set(method, fault)
  }

  heal(method: Method): void {
    this.#faults.delete(method)
  }

  count(method: Method): number {
    return this.calls.filter((call) => call.method === method).length
  }
}

/** The request never reaches the store and no answer ever comes. */
export const hang: Fault = () => new Promise(() => undefined)

export function failWith(code: ErrorCode): Fault {
  return () => Promise.reject(new LeaseError(code, 'a fault of the test'))
}

/** The store does what it was asked, but nobody hears of it. */
export const loseAnswer: Fault = async (send) => {
  await send()
  throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'the answer was lost')
}

/** The store does at once what it was asked, and its answer is on the way for so long. */
export function answerAfter({ runtime }: World, spanMs: number): Fault {
  return async (send) => {
    const answer = await send()
    await new Promise<void>((resolve) => {
      runtime.setTimer(spanMs, resolve, { keepAlive: true })
    })
    return answer
  }
}

/** The first `times` calls meet the fault, the others go through. */
export function first(times: number, fault: Fault): Fault {
  let left = times
  return (send, input) => {
    left -= 1
    return left >= 0 ? fault(send, input) : send()
  }
}

export interface World {
  readonly runtime: FakeRuntime
  readonly store: MemoryStore
  readonly service: LeaseService
}

export function newWorld(runtime: FakeRuntime = new FakeRuntime()): World {
  const store = new MemoryStore({ ticks: runtime.ticks })
  return { runtime, store, service: new LeaseService({ store, runtime }) }
}

export interface ClientOptions {
  readonly sequential?: boolean
  readonly service?: LeaseService
  readonly session?: string
  readonly claimWindowMs?: number
  readonly signer?: GrantSigner
  readonly orphans?: 'renew' | 'release'
  readonly maxHold?: 'none' | 'configured'
}

export interface TestClient {
  readonly tenure: Tenure
  readonly faults: FaultyApi
}

/** A client in a process of its own, unless it is told whose service it shares. */
export function newClient(
  world: World,
  holder: string,
  { service, ...options }: ClientOptions = {},
): TestClient {
  const { runtime, store } = world
  const api = overWire(service ?? new LeaseService({ store, runtime }), runtime)
  const faults = new FaultyApi(api, runtime)
  return { tenure: new TenureClient({ api: faults.api, runtime, holder, ...options }), faults }
}

/** Follows a promise, so that a test can ask how it stands without waiting for it. */
export function follow<Value>(promise: Promise<Value>): {
  readonly value: () => Value
  readonly error: () => LeaseError
  readonly isPending: () => boolean
} {
  let outcome: { readonly value: Value } | { readonly error: unknown } | null = null
  promise.then(
    (value) => (outcome = { value }),
    (error: unknown) => (outcome = { error }),
  )
  const settled = (): { readonly value: Value } | { readonly error: unknown } => {
    if (outcome === null) throw new Error('the promise is still pending')
    return outcome
  }
  return {
    isPending: () => outcome === null,
    value: () => {
      const result = settled()
      if ('value' in result) return result.value
      throw result.error
    },
    error: () => {
      const result = settled()
      if ('error' in result && result.error instanceof LeaseError) return result.error
      throw new Error(`expected a LeaseError, got ${JSON.stringify(result)}`)
    },
  }
}

/** What a lease tells its holder, in order. */
export function record(lease: Lease): string[] {
  const told: string[] = []
  for (const name of ['uncertain', 'recovered', 'renewed', 'lost'] as const) {
    lease.on(name, () => told.push(name))
  }
  return told
}

/** A client that holds one lease, of 30 s unless told otherwise. */
export interface Holding extends TestClient {
  readonly world: World
  readonly lease: Lease
  readonly advance: (spanMs: number) => Promise<void>
}

export async function newHolding(options: AcquireOptions = {}): Promise<Holding> {
  const world = newWorld()
  const client = newClient(world, 'agent-1')
  const lease = await client.tenure.acquire('work:W-1', { ttlMs: 30_000, ...options })
  return { world, ...client, lease, advance: (spanMs) => world.runtime.advance(spanMs) }
}

/** Two clients of one store, which most of what happens between people needs. */
export interface Stage {
  readonly world: World
  readonly alice: TestClient
  readonly bob: TestClient
  readonly advance: (spanMs: number) => Promise<void>
}

export function newStage(): Stage {
  const world = newWorld()
  return {
    world,
    alice: newClient(world, 'alice'),
    bob: newClient(world, 'bob'),
    advance: (spanMs) => world.runtime.advance(spanMs),
  }
}

/** The store's view of a holder's leases and tickets. */
export async function statesOf(world: World, holder: string): Promise<readonly string[]> {
  const { leases } = await world.service.list({ holder })
  return leases.map((lease) => lease.state)
}
