/**
 * `/mcp`: the tools of `src/mcp` over HTTP, for whoever the server takes requests from, within the rights of that caller. A
 * server renews nothing by itself: a lease gets ten minutes, and each call of its holder renews what that holder has taken so.
 */
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import { BackgroundWork } from '../client/background-work.ts'
import type { CallerConnection } from '../client/caller-connection.ts'
import { invalid, isLeaseError } from '../core/errors.ts'
import { isTree, parseResource, type Reach } from '../core/resource.ts'
import { isToolLease } from '../mcp/lease-tools.ts'
import type { HostApi, LeaseHost } from '../mcp/lease-host.ts'
import { mcpServer, type EndingConnection } from '../mcp/mcp-server.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { activeOf } from '../service/list-all.ts'
import { askedCall, tokenNameOf, uncounted } from './api-calls.ts'
import { authorise, shownError } from './authorise.ts'
import type { Call, Fields } from './call.ts'
import type { Caller } from './caller.ts'

const TTL_MS = 600_000

export class McpRoute {
  readonly #handler: McpHttpHandler
  readonly #answers = new BackgroundWork()

  constructor(version: string) {
    this.#handler = createMcpHandler(
      ({ authInfo }) => {
        const call = authInfo?.extra?.['call'] as Call
        const connectionOf = (): EndingConnection => new AnsweredLater(call.connection)
        return mcpServer({ host: hostFor(call), version, connectionOf })
      },
      { onerror: reportTo('server/mcp') },
    )
  }

  answer(call: Call, request: Request, parsedBody: unknown): Promise<Response> {
    const { name: clientId, role } = call.caller
    // Whoever asks was identified before; the token itself is nobody's business from here on.
    const authInfo = { token: '', clientId, scopes: [role], extra: { call } }
    const answer = this.#handler.fetch(request, { authInfo, parsedBody })
    this.#answers.add('server/mcp', answer)
    return answer
  }

  /** The handler gives up what it is asked at that moment: a lease that was granted would be nobody's. */
  async close(): Promise<void> {
    await this.#answers.ends()
    await this.#handler.close()
  }
}

/** The end of an HTTP answer says whether it was written. */
class AnsweredLater implements EndingConnection {
  readonly #connection: CallerConnection

  constructor(connection: CallerConnection) {
    this.#connection = connection
  }

  get isOpen(): boolean {
    return this.#connection.isOpen
  }

  onEnd(listener: (wasWritten: boolean) => void): void {
    this.#connection.onEnd(listener)
  }

  answered(): void {
    // Nothing to do here: the connection tells.
  }
}

function hostFor(call: Call): LeaseHost {
  const { caller, store, runtime } = call
  const api = apiFor(call)
  return {
    ...{ runtime, api, readReach, holder: ownName(caller) },
    ttlMs: Math.min(TTL_MS, caller.maxTtlMs ?? TTL_MS),
    lifetime: 'Each call in your name renews them, four hours at most.',
    acquire: (asked, connection) => {
      const request = { ...asked, ...tokenNameOf(call, 'acquire') }
      return permitted(call, 'acquire', request, () => store.waits.acquire(request, connection))
    },
    acquireAll: (asked, connection) => {
      const request = { ...asked, ...tokenNameOf(call, 'acquireAll') }
      return permitted(call, 'acquireAll', request, () => {
        return store.waits.acquireAll(request, connection)
      })
    },
    onCall: (holder) => renewAll(api, holder),
    onGranted: () => undefined,
    onReleased: () => undefined,
  }
}

/** Of a token that acts as one holder only. */
function ownName({ as }: Caller): string | null {
  const [only] = as
  return as.length === 1 && only !== undefined && !only.includes('*') ? only : null
}

async function permitted<Answer>(
  call: Call,
  name: 'acquire' | 'acquireAll',
  request: object,
  work: () => Promise<Answer>,
): Promise<Answer> {
  try {
    await authorise(call, name, request as Fields)
    return await work()
  } catch (error) {
    call.onRefused(error)
    throw isLeaseError(error) ? shownError(call.caller, error) : error
  }
}

/**
 * What a renewal and a release look at first, and what is derived for a request that then fails is looked at once more before
 * it is given back. The message that they are part of was counted.
 */
const BEFORE_A_RELEASE: ReadonlySet<keyof HostApi> = new Set(['get', 'list'] as const)

function apiFor(call: Call): HostApi {
  const ask = <Name extends keyof HostApi>(name: Name): LeaseApi[Name] => {
    const asked = BEFORE_A_RELEASE.has(name) ? uncounted(call) : call
    return ((request: Fields) => askedCall(asked, name, request)) as LeaseApi[Name]
  }
  return {
    ...{ get: ask('get'), list: ask('list'), inspect: ask('inspect'), derive: ask('derive') },
    ...{ renew: ask('renew'), release: ask('release'), withdraw: ask('withdraw') },
  }
}

/** The caller's disk is not this server's: a path counts as it is written. */
function readReach(text: string): Reach {
  const [first = ''] = text.split('/', 1)
  const isPath = !first.includes(':')
  if (isPath && !text.startsWith('/')) {
    throw invalid('resource', 'must be kind:name or an absolute path', text)
  }
  const resource = parseResource(isPath ? `file:${text}` : text)
  return { resource, extent: isTree(resource) && text.endsWith('/') ? 'subtree' : 'exact' }
}

/** A lease that cannot be renewed ends by itself, and the call that is about it says so. */
async function renewAll(api: HostApi, holder: string): Promise<void> {
  const taken = (await activeOf(api, holder)).filter(isToolLease)
  await Promise.all(
    taken.map(({ id, resource, extent }) => api.renew({ id, resource, extent, holder })),
  )
}
