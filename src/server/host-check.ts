/**
 * Where a server may listen, and whose requests it takes there. A server without tokens trusts everybody who reaches it, so
 * only programs of this host may: it listens on loopback alone, and a page of another origin in a browser of this host is
 * told from a program by `Origin`, and one that had its own name resolved to loopback by `Host`.
 */
import { BlockList, isIP } from 'node:net'
import { invalid } from '../core/errors.ts'
import { forbidden } from './problem.ts'

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true
  const family = isIP(host)
  return family !== 0 && LOOPBACK.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

export interface Exposure {
  readonly host: string
  readonly hasTokens: boolean
  readonly hasTls: boolean
  readonly behindProxy: boolean
}

/** Throws for an address on which others could use the server, or hear what is said. */
export function refuseExposure({ host, hasTokens, hasTls, behindProxy }: Exposure): void {
  if (isLoopback(host)) return
  if (!hasTokens) throw invalid('listen', 'must be a loopback address without --tokens', host)
  if (hasTls || behindProxy) return
  const expectation =
    'must be a loopback address without --tls-cert and --tls-key or --behind-proxy'
  throw invalid('listen', expectation, host)
}

/** Of a server without tokens. `authority` is the header `Host`. */
export function refuseForeignPages(
  authority: string | undefined,
  origin: string | undefined,
): void {
  const host = hostOf(authority)
  if (host === null || !isLoopback(host)) {
    throw forbidden('Host must be that of this server', { field: 'Host' })
  }
  if (origin === undefined || originHost(origin) === authority) return
  throw forbidden('Origin must be that of this server', { field: 'Origin' })
}

/** `[::1]:7420`, `localhost:7420` and `127.0.0.1` without what is not the name. */
function hostOf(authority: string | undefined): string | null {
  const [, bracketed, plain] =
    /^(?:\[([^\]]+)\]|([^:[\]]+))(?::\d{1,5})?$/.exec(authority ?? '') ?? []
  return bracketed ?? plain?.toLowerCase() ?? null
}

function originHost(origin: string): string | null {
  return /^https?:\/\/([^/]+)$/.exec(origin)?.[1] ?? null
}
