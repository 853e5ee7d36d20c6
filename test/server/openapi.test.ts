/** The OpenAPI document, by the judgement of a validator that is not ours. */
import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, it } from 'vitest'
import { REQUESTS } from '../../src/protocol/requests.ts'
import { fieldsFor } from '../../src/protocol/shape.ts'
import { ROUTES } from '../../src/server/routes.ts'
import { serving } from './serving.ts'

interface Described {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}
interface Operation {
  readonly operationId: string
  readonly parameters?: readonly { readonly name: string }[]
}

it('is valid OpenAPI 3.1, and has every route', async () => {
  const server = await serving()
  const { body } = await server.ask<Described>('GET /openapi.json')
  const verdict = await new Validator().validate(structuredClone(body) as never)
  expect(verdict).toMatchObject({ valid: true })
  expect(body.openapi).toMatch(/^3\.1\./)
  for (const { path, method, name } of ROUTES) {
    expect(body.paths[path]?.[method.toLowerCase()]?.operationId).toBe(name)
  }
})

it('describes every field that a request over HTTP may have, with its bounds', async () => {
  const server = await serving()
  const { body } = await server.ask('GET /openapi.json')
  const text = JSON.stringify(body)
  // A request is named by Idempotency-Key, not in its body.
  const fields = ROUTES.flatMap(({ name }) => fieldsFor('http', REQUESTS[name].fields)).map(
    ([name]) => name,
  )
  const missing = fields.filter((field) => field !== 'requestId' && !text.includes(`"${field}"`))
  expect(missing).toEqual([])
  expect(text).toContain('"maximum":60000')
})

it('has an Idempotency-Key where one makes a repeated request the same, and nowhere else', async () => {
  const server = await serving()
  const { body } = await server.ask<Described>('GET /openapi.json')
  const operations = Object.values(body.paths).flatMap((methods) => Object.values(methods))
  const named = operations.filter(({ parameters = [] }) => {
    return parameters.some(({ name }) => name === 'Idempotency-Key')
  })
  expect(named.map(({ operationId }) => operationId).toSorted()).toEqual(
    [
      ...['acquire', 'acquireAll', 'renew', 'release', 'transfer', 'adopt', 'upgrade'],
      ...['downgrade', 'derive', 'spend', 'advance', 'revoke'],
    ].toSorted(),
  )
})

it('has what the stream of events can be asked for', async () => {
  const server = await serving()
  const { body } = await server.ask<Described>('GET /openapi.json')
  const names = body.paths['/v1/events']?.['get']?.parameters?.map(({ name }) => name) ?? []
  const fields = fieldsFor('http', REQUESTS.watch.fields).map(([name]) => name)
  expect(names).toEqual(expect.arrayContaining([...fields, 'Last-Event-ID']))
  expect(new Set(names).size).toBe(names.length)
})
