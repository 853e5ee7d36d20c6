/** Whatever is sent, the answer has the right status and the one shape: never a stack, never a 500. */
import { once } from 'node:events'
import net from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'
import type { AccessEntry } from '../../src/server/application.ts'
import { fuzz } from './fuzz.ts'
import { serving, type Serving } from './serving.ts'

interface ProblemAnswer {
  readonly code: string
  readonly detail: string
  readonly details: { readonly field?: string }
}

const ID = '018f3c5e-0000-7000-8000-000000000017'

describe('a bad body', () => {
  it.each([
    ['no JSON', '{"resource":', 400, 'body must be JSON'],
    ['no UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400, 'body must be UTF-8'],
    ['no object', '[1]', 400, 'body must be an object'],
    ['nothing but null', 'null', 400, 'body must be an object'],
    ['a field twice', '{"holder":"a","holder":"b"}', 400, 'body must have each field once'],
    ['a field twice, escaped', '{"holder":"a","h\\u006flder":"b"}', 400, 'each field once'],
    [
      'a field twice, behind escaped quotes',
      String.raw`{"metadata":{"x":"\\\"}","a\\":1,"a\\":2}}`,
      400,
      'each field once',
    ],
    ['a prototype', '{"__proto__":{"holder":"a"}}', 400, 'must have no field of this name'],
    ['a prototype in metadata', '{"metadata":{"__proto__":1}}', 400, 'no field of this name'],
    ['depth', `{"metadata":${'['.repeat(40)}${']'.repeat(40)}}`, 400, 'must nest at most 32'],
    ['great depth', `${'['.repeat(30_000)}${']'.repeat(30_000)}`, 400, 'must nest at most 32'],
    [
      'a number beyond all',
      '{"resource":"work:1","holder":"a","ttlMs":1e400}',
      400,
      'ttlMs must be',
    ],
    ['a fraction', '{"resource":"work:1","holder":"a","ttlMs":1.5}', 400, 'ttlMs must be'],
    ['a wait beyond a minute', '{"resource":"work:1","holder":"a","waitMs":60001}', 400, 'waitMs'],
    ['an unknown field', '{"resource":"work:1","holder":"a","color":"red"}', 400, 'got "color"'],
    ['no holder', '{"resource":"work:1"}', 400, 'holder must be'],
    ['a foreign request id', `{"requestId":"${ID}"}`, 400, 'requestId must not be given'],
    ['too much', `{"reason":"${'x'.repeat(70_000)}"}`, 413, 'must be at most 65536 bytes'],
  ])('%s', async (_name, body, status, message) => {
    const server = await serving()
    const response = await fetch(`${server.url}/v1/leases`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body,
    })
    const problem = (await response.json()) as ProblemAnswer
    expect([response.status, problem.code]).toEqual([status, 'INVALID_INPUT'])
    expect(problem.detail).toContain(message)
  })

  it('is not one whose texts look like fields', async () => {
    const server = await serving()
    const holder = String.raw`{"holder":"a","holder":"b"}${'['.repeat(40)}\\`
    const body = { resource: 'work:1', holder }
    const answer = await server.ask<{ lease: { holder: string } }>('POST /v1/leases', { body })
    expect([answer.status, answer.body.lease.holder]).toEqual([201, holder])
  })

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp'])(
    'of the media type %s is refused with 415',
    async (type) => {
      const server = await serving()
      const asked = { body: '{}', headers: { 'Content-Type': type } }
      expect((await server.ask('POST /v1/leases', asked)).status).toBe(415)
    },
  )

  it('that is compressed is refused with 415', async () => {
    const server = await serving()
    const asked = { body: '{}', headers: { 'Content-Encoding': 'gzip' } }
    expect((await server.ask('POST /v1/leases', asked)).status).toBe(415)
  })
})

describe('a bad path or method', () => {
  it.each([
    ['GET /v1/nothing', 404],
    ['GET /v1/leases/', 404],
    ['DELETE /v1/leases', 405],
    ['PUT /healthz', 405],
    ['OPTIONS /v1/leases', 405],
    ['GET /v1/leases/none', 400],
    ['GET /v1/leases/%00', 400],
    ['GET /v1/leases/%2e%2e', 404],
    ['GET /v1/leases/%252e%252e%252fconfig', 400],
    ['GET /v1/leases/%c0%ae%c0%ae', 400],
    ['GET /v1/leases/../../etc/passwd', 404],
    [`GET /v1/leases/${ID}`, 404],
    [`POST /v1/leases/${ID}/explode`, 404],
    ['GET /v1/leases?limit=0', 400],
    ['GET /v1/leases?limit=1001', 400],
    ['GET /v1/leases?limit=ten', 400],
    ['GET /v1/leases?holder=a&holder=b', 400],
    ['GET /v1/leases?colour=red', 400],
    ['GET /v1/leases?state=asleep', 400],
    ['GET /v1/resources', 400],
    ['GET /v1/resources?resource=work', 400],
    ['GET /v1/resources?resource=work:%ff', 400],
    ['GET /v1/leases?holder=100%', 400],
    ['POST /v1/holders/%ff/release-all', 400],
    ['GET /v1/events?types=lease.exploded', 400],
    [`GET /v1/leases?holder=${'x'.repeat(9_000)}`, 414],
  ])('%s is answered with %i', async (line, status) => {
    const server = await serving()
    expect((await server.ask(line)).status).toBe(status)
  })

  it('says which methods the path has', async () => {
    const server = await serving()
    const { headers } = await server.ask('DELETE /v1/leases')
    expect(headers.get('allow')?.split(', ').toSorted()).toEqual(['GET', 'POST'])
  })
})

/** Sends bytes as they are, and gives all that comes back. */
async function raw({ url }: Serving, text: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = net.connect({ host: hostname, port: Number(port) })
  onTestFinished(() => void socket.destroy())
  let answer = ''
  socket.on('data', (part) => (answer += part.toString('latin1')))
  socket.on('error', () => undefined)
  socket.write(text, 'latin1')
  await once(socket, 'close')
  return answer
}

describe('bad HTTP', () => {
  const end = 'Connection: close\r\n\r\n'

  it.each([
    ['no HTTP at all', 'hello\r\n\r\n', 400],
    [
      'a huge header',
      `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(40_000)}\r\n${end}`,
      431,
    ],
    ['two hosts', `GET /v1/leases HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n${end}`, 400],
    [
      'two namespaces',
      `GET /v1/leases HTTP/1.1\r\nHost: localhost\r\nTenure-Namespace: a\r\nTenure-Namespace: b\r\n${end}`,
      400,
    ],
    [
      'two lengths',
      `POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n${end}{}`,
      400,
    ],
    [
      'a length and chunks',
      `POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n${end}0\r\n\r\n`,
      400,
    ],
    ['no host', 'GET /healthz HTTP/1.1\r\n' + end, 400],
    [
      'a strange expectation',
      `GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n${end}`,
      417,
    ],
    [
      'a strange namespace',
      `GET /v1/leases HTTP/1.1\r\nHost: localhost\r\nTenure-Namespace: A B\r\n${end}`,
      400,
    ],
  ])('%s', async (_name, text, status) => {
    const server = await serving()
    const answer = await raw(server, text)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(answer).toContain('application/problem+json')
  })

  it.each([
    ['an asterisk', 'OPTIONS * HTTP/1.1\r\nHost: localhost'],
    ['a backslash', 'GET /v1\\config HTTP/1.1\r\nHost: localhost'],
    ['a space in the host', 'GET /healthz HTTP/1.1\r\nHost: a b'],
    ['two hosts in one', 'GET /healthz HTTP/1.1\r\nHost: localhost, evil'],
    ['a port beyond all', 'GET /healthz HTTP/1.1\r\nHost: localhost:99999'],
    ['half an address', 'GET /healthz HTTP/1.1\r\nHost: [::1'],
    ['a user', 'GET /healthz HTTP/1.1\r\nHost: a@localhost'],
    // These have the characters of a name, and are none: what ends in a number is an address.
    ['no address', 'GET /healthz HTTP/1.1\r\nHost: 1.2.3.999'],
    ['a great number', 'GET /v1/leases HTTP/1.1\r\nHost: 99999999999999'],
    ['no punycode', 'GET /v1/leases HTTP/1.1\r\nHost: xn--a'],
  ])('%s instead of a URL is refused, and the server goes on', async (_name, head) => {
    const server = await serving({ withTokens: true })
    const answer = await raw(server, `${head}\r\n${end}`)
    expect(answer).toMatch(/^HTTP\/1.1 400 /)
    expect(answer).toContain('"code":"INVALID_INPUT"')
    expect((await server.ask('GET /healthz')).status).toBe(200)
  })

  it('what comes behind a whole request is not answered in its place', async () => {
    const server = await serving()
    await server.ask('POST /v1/leases', { body: { resource: 'work:1', holder: 'ann' } })
    const body = '{"resource":"work:1","holder":"ben","waitMs":60000}'
    const head = 'POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    const text = `${head}Content-Length: ${body.length}\r\n\r\n${body}hello\r\n\r\n`
    expect(await raw(server, text)).toBe('')
  })

  it('a body in chunks that never ends is cut off where it is too long', async () => {
    const server = await serving()
    const chunk = `2000\r\n${' '.repeat(0x2000)}\r\n`
    const head = 'POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    const text = `${head}Transfer-Encoding: chunked\r\n${end}${chunk.repeat(12)}`
    expect(await raw(server, text)).toMatch(/^HTTP\/1.1 413 /)
  })
})

it.each([
  ['/v1/leases', 'Content-Type: application/json'],
  ['/mcp', 'Content-Type: application/json'],
  [
    '/lfs/default/repo/locks',
    'Content-Type: application/vnd.git-lfs+json\r\nAuthorization: Basic YW5uOng=',
  ],
])('a caller of %s that goes before its body has arrived is no fault', async (path, headers) => {
  const faults: Fault[] = []
  onTestFinished(onFault((fault) => faults.push(fault)))
  let end: (entry: AccessEntry) => void = () => undefined
  const ended = new Promise<AccessEntry>((resolve) => (end = resolve))
  const server = await serving({ onRequest: (entry) => entry.method === 'POST' && end(entry) })
  // The store is open from now on: whoever asks for it has its body read at once.
  await server.ask('GET /v1/leases')
  const { hostname, port } = new URL(server.url)
  const socket = net.connect({ host: hostname, port: Number(port) })
  const length = 'Expect: 100-continue\r\nContent-Length: 50'
  socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n${length}\r\n\r\n{"a"`)
  await once(socket, 'data')
  await server.ask('GET /healthz')
  socket.destroy()
  expect(await ended).toMatchObject({ path, status: 499 })
  await server.ask('GET /healthz')
  expect(faults).toEqual([])
})

it('a request whose URL is not escaped UTF-8 is told of as every other', async () => {
  const entries: AccessEntry[] = []
  const server = await serving({ onRequest: (entry) => entries.push(entry) })
  await server.ask('GET /v1/leases?holder=100%')
  await server.ask('GET /healthz')
  expect(entries).toMatchObject([
    { path: '/v1/leases', status: 400 },
    { path: '/healthz', status: 200 },
  ])
})

it('an Idempotency-Key has up to 128 bytes, whatever they are', async () => {
  const server = await serving()
  const key = 'é'.repeat(64)
  const statusOf = async (bytes: string): Promise<number> => {
    const headers = { 'Idempotency-Key': Buffer.from(bytes).toString('latin1') }
    return (
      await server.ask('POST /v1/leases', { body: { resource: 'work:1', holder: 'a' }, headers })
    ).status
  }
  expect(await statusOf(key)).toBe(201)
  expect(await statusOf(`${key}x`)).toBe(400)
})

it('random bodies over all routes never make it fail', async () => {
  await fuzz(await serving({ role: 'operator' }), 300)
})
