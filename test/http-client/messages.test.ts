/** What a command says where something is wrong with the server, its URL or the token: which, and what to do. */
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import type { AccessEntry } from '../../src/server/application.ts'
import { workshop } from '../cli/tenure-process.ts'
import { serving } from '../server/serving.ts'
import { openAt } from './http-stage.ts'

describe('a command over a server', () => {
  it.each([
    ['a path that no server has', ['ls'], '/foo', 2, 'store must be the URL of a Tenure server'],
    ['a server without TLS', ['ls'], 'https', 15, 'it does not speak TLS'],
    ['a role that nobody has', ['revoke', 'work:1'], '', 12, 'tenure serve --operator'],
  ])('says what to do about %s', async (_what, args, part, code, words) => {
    const { url } = await serving()
    const api = await openAt(url, 'ann')
    await api.acquire('work:1')
    const store = part === 'https' ? url.replace('http:', 'https:') : `${url}${part}`
    const told = await workshop().tenure([...args, '--store', store])
    expect([told.code, told.stderr]).toEqual([code, expect.stringContaining(words)])
    expect(told.stderr).not.toMatch(/ssl3|OpenSSL|\.c:\d+/)
  })

  it('says where the token is read from', async () => {
    const { url } = await serving({ withTokens: true })
    const told = await workshop().tenure(['ls', '--store', url])
    expect([told.code, told.stderr]).toEqual([12, expect.stringContaining('TENURE_TOKEN')])
  })

  it.each([
    ['acquire', 'work:1', '--holder', 'bob', '--wait', '1500ms'],
    ['wait', 'work:1', '--holder', 'bob', '--timeout', '1500ms'],
  ])('%s has timed out although its server went away meanwhile', async (...args) => {
    const store = `memory:away-${process.pid}-${args[0]}`
    const api = await openApi(store)
    onTestFinished(() => api.close())
    await (await openAt(store, 'ann')).acquire('work:1')
    const calls: string[] = []
    const onRequest = ({ path: place }: AccessEntry): void => void calls.push(place)
    const { url, server } = await serving({ store, onRequest })
    const waiting = workshop().start([...args, '--store', url])
    // It has asked, and was answered.
    await expect.poll(() => calls, { timeout: 10_000 }).toContain('/v1/batch')
    await server.close()
    expect((await waiting.ended).code).toBe(11)
  })

  it('wait says that the store is away where it never answered', async () => {
    const { url, server } = await serving()
    await server.close()
    const args = ['wait', 'work:1', '--timeout', '300ms', '--store', url]
    const told = await workshop().tenure(args)
    expect([told.code, told.stderr]).toEqual([15, expect.stringContaining('cannot be reached')])
  })
})

it('an error says, like the answer of the server, that a token may make the same request later', async () => {
  const server = await serving({ withTokens: true })
  const token = server.token({ name: 'ci', role: 'holder', maxRequests: 1 })
  const api = await openApi(server.url, { token })
  onTestFinished(() => api.close())
  const looks = Array.from({ length: 20 }, () => api.list({ state: 'active' }))
  const settled = await Promise.allSettled(looks)
  const [first] = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  expect(first).toMatchObject({ code: 'LIMIT_EXCEEDED', retryable: true, effect: 'none' })
})

it('tenure serve names the option of a certificate that it cannot use', async () => {
  const shop = workshop()
  const files = ['--tls-cert', 'none.pem', '--tls-key', shop.storeFile]
  const missing = await shop.hosted(['serve', ...files])
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('tls-cert must be')])
  const wrong = ['--tls-cert', shop.storeFile, '--tls-key', shop.storeFile]
  const unusable = await shop.hosted(['serve', ...wrong])
  expect([unusable.code, unusable.stderr]).toEqual([2, expect.stringContaining('tls-cert must be')])
})

it('tenure tokens ls shows the limits of each token', async () => {
  const shop = workshop()
  const file = ['--tokens', path.join(shop.directory, 'tokens.json')]
  const limits = ['--max-leases', '5', '--max-ttl', '1h', '--max-priority', '0']
  await shop.hosted(['tokens', 'create', '--name', 'ci', ...limits, ...file])
  await shop.hosted(['tokens', 'create', '--name', 'free', ...file])
  const { stdout } = await shop.hosted(['tokens', 'ls', ...file])
  expect(stdout).toMatch(/ci .* 5 leases, priority 0, ttl 1h +/)
  expect(stdout).toMatch(/free .* all +- +/)
})
