/**
 * A service of the client suite behind a real server, on loopback. The suite's time is its own, so that only the wire is
 * real: time does not move while a request or a wake-up is on its way.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach } from 'vitest'
import { openHttpApi } from '../../src/http-client/http-api.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { startServer } from '../../src/server/start-server.ts'
import type { LeaseApi, WakeSignal } from '../../src/service/lease-api.ts'
import type { LeaseService } from '../../src/service/lease-service.ts'
import type { FakeRuntime } from '../../src/testing/fake-runtime.ts'

type AnyCall = (...input: readonly unknown[]) => unknown

/** What hangs must fail; far longer than loopback takes on a busy machine. */
const ARRIVES_WITHIN_MS = 10_000

const open = new Set<HttpWire>()

afterEach(async () => {
  await Promise.all([...open].map((wire) => wire.close()))
  open.clear()
})

export function overHttp(service: LeaseService, runtime: FakeRuntime): LeaseApi {
  const wire = new HttpWire(service)
  open.add(wire)
  const settle = runtime.settle.bind(runtime)
  runtime.settle = async () => {
    const untilMs = performance.now() + ARRIVES_WITHIN_MS
    do {
      await settle()
      while (wire.isBusy) {
        if (performance.now() > untilMs) throw new Error('a request or a wake-up did not arrive')
        await turn()
      }
      await settle()
    } while (wire.isBusy)
  }
  return wire.api
}

class HttpWire {
  readonly api: LeaseApi
  readonly #opening: Promise<LeaseApi>
  #close: () => Promise<void> = () => Promise.resolve()
  #calls = 0
  #wakesOnTheirWay = 0

  constructor(service: LeaseService) {
    this.#opening = this.#open(service)
    this.api = new Proxy(service, {
      get: (target, name: keyof LeaseApi) => this.#member(target, name),
    })
  }

  get isBusy(): boolean {
    return this.#calls + this.#wakesOnTheirWay > 0
  }

  async close(): Promise<void> {
    await this.#opening
    await this.#close()
  }

  async #open(service: LeaseService): Promise<LeaseApi> {
    const served = this.#served(service)
    const server = await startServer({ open: async () => served, port: 0, role: 'operator' })
    const { url } = server
    const where = { url, urls: [new URL(url)], token: null, namespace: null }
    const api = openHttpApi({ ...where, callMs: 30_000, runtime: systemRuntime })
    this.#close = async () => {
      await api.close()
      await server.close()
    }
    return api
  }

  /** The server's own watch would settle what runs out, which nobody but the suite may do. */
  #served(service: LeaseService): LeaseApi {
    return new Proxy<LeaseApi>(service, {
      get: (target, name: keyof LeaseApi) => {
        if (name === 'watch') return nothing
        if (name === 'close') return () => Promise.resolve()
        if (name === 'onWake') {
          return (request: { readonly session: string }, listener: (signal: WakeSignal) => void) =>
            service.onWake(request, (signal) => {
              this.#wakesOnTheirWay += 1
              listener(signal)
            })
        }
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? (value as AnyCall).bind(target) : value
      },
    })
  }

  #member(service: LeaseService, name: keyof LeaseApi): unknown {
    if (name === 'store') return service.store
    if (name === 'standBy') return undefined
    if (name === 'watch') return service.watch.bind(service)
    return async (...input: readonly unknown[]): Promise<unknown> => {
      this.#calls += 1
      try {
        const api = await this.#opening
        if (name !== 'onWake') return await (api[name] as AnyCall)(...input)
        const [request, listener] = input as Parameters<LeaseApi['onWake']>
        return await api.onWake(request, (signal) => {
          // The first look after the stream has opened is no wake-up of the store.
          if (signal.leaseIds !== null) this.#wakesOnTheirWay -= 1
          listener(signal)
        })
      } finally {
        this.#calls -= 1
      }
    }
  }
}

async function* nothing(): AsyncGenerator<never> {
  // Nothing ever comes.
}
