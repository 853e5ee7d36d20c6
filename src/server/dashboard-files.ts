/**
 * The files of the dashboard, as the build has left them: each compressed beside itself, names that change with the content.
 * The page itself is asked for each time; what it names is kept for ever.
 *
 * The page may load and ask nothing but its own server, runs no script and no style that stands in a page, and nobody may
 * put it into a frame.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { ifThere } from '../runtime/file-system.ts'
import { httpError } from './problem.ts'

/** The same from `src` and from `dist`. */
const FOLDER = path.resolve(import.meta.dirname, '../../dist/dashboard')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const PAGE_HEADERS = {
  'Content-Security-Policy': POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-cache',
}
const ASSET_HEADERS = { 'Cache-Control': 'public, max-age=31536000, immutable' }

/** In the order in which they are preferred. */
const ENCODINGS = [
  { name: 'br', ending: '.br' },
  { name: 'gzip', ending: '.gz' },
] as const

type Contents = ReadonlyMap<string, Buffer>

let contents: Contents | null = null

/** `name` is looked up among what is there: no path that a caller makes up is ever opened. */
export function dashboardFile(name: string, request: Request): Response {
  contents ??= readFiles()
  const type = TYPES[path.posix.extname(name)]
  if (type === undefined || !contents.has(name)) {
    throw httpError(404, 'the path must be one of a route, or of a file of the dashboard')
  }
  const accepted = (request.headers.get('accept-encoding') ?? '').split(/\s*,\s*/)
  const files = contents
  const encoding = ENCODINGS.find((one) => {
    return accepted.includes(one.name) && files.has(`${name}${one.ending}`)
  })
  const content = contents.get(`${name}${encoding?.ending ?? ''}`)
  return new Response(new Uint8Array(content ?? []), {
    headers: {
      ...(name === 'index.html' ? PAGE_HEADERS : ASSET_HEADERS),
      'Content-Type': type,
      Vary: 'Accept-Encoding',
      ...(encoding === undefined ? {} : { 'Content-Encoding': encoding.name }),
    },
  })
}

/** A program that was bundled has the server without the files of its page. */
function readFiles(): Contents {
  const names = ifThere(() => readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })) ?? []
  const files = names.filter((name) => path.extname(name) !== '')
  return new Map(files.map((name) => [posix(name), readFileSync(path.join(FOLDER, name))]))
}

function posix(name: string): string {
  return name.replaceAll(path.sep, '/')
}
