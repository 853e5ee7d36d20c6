/** A part of the page that runs without a browser, though its types are those of one: a test says what it uses of them. */
export async function pageModule<Module>(name: string): Promise<Module> {
  const url = new URL(`../../src/dashboard/${name}.ts`, import.meta.url)
  return (await import(/* @vite-ignore */ url.href)) as Module
}
