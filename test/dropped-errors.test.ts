/**
 * No error of the sources is dropped in silence: a `catch`, a rejection handler or an `error` listener looks at the error
 * (answers with it, throws it on, or reports it), or says why it need not. It says so in a comment that begins with
 * `No fault:`, inside the block or on the line above the handler, because then the error is the answer.
 */
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const REASON = /\/\/ No fault: \S/

function sources(directory: string): readonly string[] {
  return fs.readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(directory, entry.name)
    if (entry.isDirectory()) return sources(file)
    return entry.name.endsWith('.ts') ? [file] : []
  })
}

/** Comments and texts are blanked out, so that brackets and words in them count for nothing. */
function blanked(text: string): string {
  const pattern = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g
  return text.replaceAll(pattern, (found) => {
    return found.replaceAll(/[^\n]/g, found.startsWith('/') ? ' ' : '_')
  })
}

/** Where the bracket that opens at `start` closes. */
function closing(code: string, start: number): number {
  const close = code[start] === '{' ? '}' : ')'
  const open = code[start]
  let depth = 0
  for (let index = start; index < code.length; index += 1) {
    if (code[index] === open) depth += 1
    if (code[index] === close) depth -= 1
    if (depth === 0) return index
  }
  return code.length
}

/** The arguments of the call whose bracket opens at `start`: where each begins and ends. */
function argumentsOf(code: string, start: number): readonly (readonly [number, number])[] {
  const end = closing(code, start)
  const found: [number, number][] = []
  let from = start + 1
  let depth = 0
  for (let index = from; index <= end; index += 1) {
    const character = code[index] ?? ''
    if (index < end && '([{'.includes(character)) depth += 1
    if (index < end && ')]}'.includes(character)) depth -= 1
    if (depth > 0 || (character !== ',' && index < end)) continue
    if (code.slice(from, index).trim() !== '') found.push([from, index])
    from = index + 1
  }
  return found
}

function successionOf(text: string, index: number): number {
  return text.slice(0, index).split('\n').length
}

function isExplained(text: string, from: number, to: number): boolean {
  const lines = text.split('\n')
  const above = lines[successionOf(text, from) - 2] ?? ''
  return REASON.test(above) || REASON.test(text.slice(from, to))
}

/** The lines of a file on which an error is dropped without a word. */
function droppedIn(text: string): readonly number[] {
  const code = blanked(text)
  const found: number[] = []
  const check = (handler: string, from: number, to: number): void => {
    const [, name = ''] = /^\s*(?:async\s*)?\(?\s*(\w*)/.exec(handler) ?? []
    const body = handler.slice(handler.indexOf(name) + name.length)
    const looks = name !== '' && new RegExp(`\\b${name}\\b`).test(body)
    if (!looks && !isExplained(text, from, to)) found.push(successionOf(text, from))
  }
  for (const match of code.matchAll(/\bcatch\s*(\(\s*\w+[^)]*\))?\s*\{/g)) {
    const start = match.index + match[0].length - 1
    const end = closing(code, start)
    check(`${match[1] ?? '()'} ${code.slice(start, end)}`, match.index, end)
  }
  const isFunction = (one: string): boolean => /^\s*(async\s*)?(\([^()]*\)|\w+)[^=]*=>/.test(one)
  for (const match of code.matchAll(/\.(catch|then|on|once)\(/g)) {
    const given = argumentsOf(code, match.index + match[0].length - 1)
    const isListener = match[1] === 'on' || match[1] === 'once'
    const [name] = given
    if (isListener && (name === undefined || !/^'error'$/.test(text.slice(...name).trim())))
      continue
    const handler = given[match[1] === 'catch' ? 0 : 1]
    if (handler === undefined || !isFunction(code.slice(...handler))) continue
    const [from, to] = handler
    check(code.slice(from, to), from + (/\S/.exec(code.slice(from))?.index ?? 0), to)
  }
  return found
}

describe('an error', () => {
  it.each([
    ['by a catch without a name', 'try { a() } catch { b() }'],
    ['by a catch that does not look at it', 'try { a() } catch (error) { return null }'],
    ['by a rejection handler', 'await work().catch(() => undefined)'],
    ['by a rejection handler that names it', 'work().catch((error) => null)'],
    ['by the second argument of then', 'work().then(\n  (a) => b(a, c),\n  () => undefined,\n)'],
    ['by a listener', "socket.on('error', () => undefined)"],
    ['by a listener that hears it once', "child.once('error', () => resolve())"],
    ['with words that do not say why', 'try { a() } catch {\n  // Whatever.\n}'],
  ])('that is dropped %s is found', (_how, text) => {
    expect(droppedIn(text)).toHaveLength(1)
  })

  it.each([
    ['thrown on', 'try { a() } catch (error) { throw named(error) }'],
    ['reported', "work().catch(reportTo('client/renewal'))"],
    ['reported by a function', "work().catch((error) => report('client/renewal', error))"],
    ['the answer, and says so', 'try { a() } catch {\n  // No fault: it ended meanwhile.\n}'],
    ['the answer of a handler', '// No fault: it ended meanwhile.\nwork().catch(() => undefined)'],
    ['passed to a listener', "socket.on('error', (error) => lose(error))"],
    ['none: another event', "socket.on('close', () => undefined)"],
    ['none: a text or comment', "// catch { }\nconst a = 'catch { }'"],
    ['none: one function for the result', 'work().then(() => undefined)'],
  ])('that is %s is not found', (_how, text) => {
    expect(droppedIn(text)).toEqual([])
  })

  it('is dropped nowhere in the sources', () => {
    const dropped = sources(path.join(ROOT, 'src')).flatMap((file) => {
      const name = path.relative(ROOT, file).replaceAll(path.sep, '/')
      return droppedIn(fs.readFileSync(file, 'utf8')).map((line) => `${name}:${line}`)
    })
    expect(dropped).toEqual([])
  })
})
