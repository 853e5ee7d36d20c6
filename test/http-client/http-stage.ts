/** Clients of a real server, over a network that a test can break. */
import { channel } from 'node:diagnostics_channel'
import { onTestFinished } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import { openApi, openTenure, type OpenOptions } from '../../src/open.ts'
import type { AccessEntry } from '../../src/server/application.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import type { CallTrace } from '../../src/service/traced-api.ts'
import { serving, type Serving } from '../server/serving.ts'
import { Proxy } from '../servers/proxy.ts'

export interface HttpStage {
  readonly server: Serving
  readonly proxy: Proxy
  /** The server's URL by way of the proxy. */
  readonly url: string
  /** Every request whose answer has ended. */
  readonly requests: AccessEntry[]
  open(holder: string, options?: Partial<OpenOptions>): Promise<Tenure>
}

export async function newHttpStage(
  options: Parameters<typeof serving>[0] = {},
): Promise<HttpStage> {
  const requests: AccessEntry[] = []
  const onRequest = (entry: AccessEntry): void => void requests.push(entry)
  const server = await serving({ role: 'operator', onRequest, ...options })
  const proxy = await Proxy.start(server.url)
  onTestFinished(() => proxy.close())
  const url = proxy.through(server.url).replace(/\/$/, '')
  const open = (holder: string, more: Partial<OpenOptions> = {}) => openAt(url, holder, more)
  return { server, proxy, url, requests, open }
}

export async function openAt(
  url: string,
  holder: string,
  options: Partial<OpenOptions> = {},
): Promise<Tenure> {
  const tenure = await openTenure(url, { holder, ...options })
  onTestFinished(() => tenure.close())
  return tenure
}

/** Resolves when so many clients hear their wake-ups, counted from the call. */
export function listening(clients: number): Promise<void> {
  return new Promise((resolve) => {
    let left = clients
    const heard = (message: unknown): void => {
      if (!(message as CallTrace).store.startsWith('http')) return
      left -= 1
      if (left > 0) return
      ended.unsubscribe(heard)
      resolve()
    }
    const ended = channel('tracing:tenure:onWake:asyncStart')
    ended.subscribe(heard)
  })
}

export async function apiAt(url: string): Promise<LeaseApi> {
  const api = await openApi(url)
  onTestFinished(() => api.close())
  return api
}
