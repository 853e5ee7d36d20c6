/** Random bodies over all routes. */
import { fc } from '../fast-check.ts'
import { ROUTES } from '../../src/server/routes.ts'
import type { Serving } from './serving.ts'

const ID = '018f3c5e-0000-7000-8000-000000000017'

/** Values of all sorts under the names that requests know. */
const NAMES = [
  ...[
    'id',
    'resource',
    'holder',
    'session',
    'ttlMs',
    'waitMs',
    'mode',
    'extent',
    'slots',
    'members',
  ],
  ...['to', 'by', 'amounts', 'from', 'count', 'scope', 'budget', 'metadata', 'reason', 'under'],
  ...['calls', 'call', 'request', 'grant', 'act', 'key', 'value', 'why', 'parent', 'group'],
]
const BODY = fc.dictionary(
  fc.constantFrom(...NAMES),
  fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.constantFrom<unknown>('work:1', 'ann', ID, 0, 1, -1, 2 ** 53, 'shared', [], {}),
  ),
)

/** Sends random bodies over all routes; a server may refuse them, and never fail. */
export async function fuzz(server: Serving, numRuns: number): Promise<void> {
  const routes = ROUTES.filter(({ method }) => method !== 'GET')
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...routes), BODY, async ({ method, path }, body) => {
      const place = path.replaceAll(/\{(id|parent)\}/g, ID).replace('{holder}', 'ann')
      // Nobody waits here.
      const { status } = await server.ask(`${method} ${place}`, { body: { ...body, waitMs: 0 } })
      return status < 500
    }),
    { numRuns },
  )
}
